"""`tandem init` with the words of the tests: the verb alone, without the command around it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from operations.verbs.init import init

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name in ("nodes", "user", "model", "reach"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--for", dest="purpose", default="")
    parser.add_argument("--people", type=int)
    parser.add_argument("--yes", dest="is_asking", action="store_false")
    sys.exit(init(**vars(parser.parse_args())))
