"""The command `tandem`: every verb with its help, from an owner's folder or from the clone."""

import sys

# Before anything that an older one could not even read.
if sys.version_info < (3, 11):
    sys.exit(
        f"tandem needs Python 3.11 or newer, and this is {sys.version_info[0]}.{sys.version_info[1]}: name a newer "
        "one, e.g. `make PYTHON=python3.12 venv`, or `uv tool install --python 3.12 .`"
    )
