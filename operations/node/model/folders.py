"""Folders of an owner's that a model's files can come from."""

from __future__ import annotations

from pathlib import Path


def source_snapshot(source: str, folder: str, revision: str, plain: bool = True) -> Path | None:
    """Where a model's files are in a folder: an HF cache, or (`plain`: of the served one) the files themselves."""
    cached = Path(source) / folder / "snapshots" / revision
    if cached.is_dir():
        return cached
    is_one = (Path(source) / "config.json").exists() or any(Path(source).glob("*.gguf"))
    return Path(source) if plain and is_one else None
