"""`python -m operations.command` is `tandem`."""

import sys

from operations.command.app import main

if __name__ == "__main__":
    sys.exit(main())
