"""Which Tandem this is."""

from __future__ import annotations

from importlib import metadata

import tomllib

from operations.command.at import ROOT

DISTRIBUTION = "tandem-spark"


def version() -> str:
    """In a clone what its pyproject.toml says, else the package's."""
    file = ROOT / "pyproject.toml"
    if file.is_file():
        return str(tomllib.loads(file.read_text())["project"]["version"])
    return metadata.version(DISTRIBUTION)
