"""What is in an image archive, without loading it."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from operations.node.commands import output

#: Docker's name of what `uname -m` says.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def problem(path: str, reference: str, machine: str) -> str:
    """Why the archive can't give this image; empty when it can."""
    if not Path(path).exists():
        return f"{path} is not there"
    try:
        with tarfile.open(path) as archive:
            manifest = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
            entry = next((e for e in manifest if reference in (e.get("RepoTags") or [])), None)
            if entry is None:
                tags = [tag for e in manifest for tag in e.get("RepoTags") or []]
                return f"{path} holds {', '.join(tags) or 'an image without a name'}, not {reference}"
            config = json.load(archive.extractfile(entry["Config"]))  # type: ignore[arg-type]
    except (tarfile.TarError, KeyError, ValueError, OSError, EOFError, TypeError):
        return f"{path} is no image archive (what `docker save` writes)"
    wanted = ARCHITECTURES.get(machine, machine)
    if config.get("architecture") != wanted:
        return f"{path} is for {config.get('architecture')}, this node is {wanted}"
    return ""


def stamp(path: str) -> str:
    """Size and time of a file, to see that another one lies there now; empty: there is none."""
    return output("stat", "--format=%s %Y", path).strip()
