"""pyinfra, as the command runs it: its log is told the command's way from the first line on."""

from pyinfra_cli.main import main

from operations.runner import telling

if __name__ == "__main__":
    telling.install()
    main()
