"""Scripts of files/ as modules: they land on nodes as single files and are no part of a package."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from operations.node.door import speaking
from operations.node.unit import phases

FILES = Path(__file__).parents[2] / "files"


def part(folder: str, name: str) -> Any:
    """A module of a program that consists of several, `files/FOLDER/NAME.py`: they import each other by name."""
    # Of a deploy's own programs, this one lies beside those that ask by sockets.
    sys.modules.setdefault("speaking", speaking)
    sys.modules.setdefault("phases", phases)
    sys.path[:] = [str(FILES / folder), *(each for each in sys.path if each != str(FILES / folder))]
    return importlib.import_module(name)


def load(name: str) -> Any:
    """The script `files/NAME` as a module."""
    path = FILES / name
    spec = importlib.util.spec_from_file_location(f"shipped_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by its name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
