"""Put a model into the store, file by file: written aside, proven, renamed. Nothing bad ever has a good name."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from operations.node import model_files, model_mend
from operations.node.survey import source_snapshot

#: Yields a file's bytes from an offset on.
Source = Callable[[int], Iterator[bytes]]


def main(store: str, folder: str, revision: str, source: str) -> dict[str, Any]:
    """On the head: take a revision from a folder (an HF cache, or the model's own files)."""
    snapshot = source_snapshot(source, folder, revision)
    if snapshot is None:
        return {"error": f"{source} has not {folder} at {revision}"}
    files = model_files.manifest(snapshot)
    for name, entry in files.items():
        if len(entry["blob"]) not in (40, 64):
            entry["blob"] = model_files.content_hash(snapshot / name, git=not name.endswith(".safetensors"))
    installer = Installer(store, folder, revision)
    try:
        for name in installer.missing(files):
            installer.add(name, files[name], _reader(snapshot / name))
        installer.finish(files)
    except OSError as error:
        return {"error": str(error)}
    return {"done": True}


class Installer:
    """One revision of one model in an HF cache: blobs by their hash, a snapshot of links to them."""

    def __init__(self, store: str, folder: str, revision: str) -> None:
        self._repo = Path(store) / folder
        self._snapshot = self._repo / "snapshots" / revision
        self._folder, self._revision = folder, revision
        self._owner = _owner_of(self._repo)
        self._make(self._repo / "blobs")
        self._make(self._repo / "refs")
        self._make(self._snapshot)

    def missing(self, files: dict[str, dict[str, Any]]) -> list[str]:
        """Names that are not here with the right size, link, structure and content; what is wrong is moved aside."""
        here = model_files.manifest(self._snapshot)
        problems = model_files.structure_problems(self._snapshot)
        # A size says nothing of a flipped bit: what was not proven is hashed before it is taken for good.
        unproven = model_files.unproven_names(self._snapshot, here)
        problems += model_files.prove_content(self._snapshot, here, unproven)
        broken = {problem.split()[0].rstrip(":") for problem in problems}
        names = []
        for name, entry in files.items():
            file = self._snapshot / name
            good = file.exists() and file.stat().st_size == entry["size"] and str(file) not in broken
            if good and Path(os.path.realpath(file)).name == entry["blob"]:
                continue
            if file.exists() and not good:
                model_mend.set_aside(file)
            names.append(name)
        return names

    def add(self, name: str, entry: dict[str, Any], source: Source) -> None:
        """Bring one file in; goes on where an earlier try broke off. Raises OSError when its content is wrong."""
        blob = self._repo / "blobs" / entry["blob"]
        if not blob.exists():
            part = blob.with_name(f"{blob.name}.part")
            self._receive(part, entry, source)
            part.rename(blob)
            blob.with_name(f"{blob.name}.broken").unlink(missing_ok=True)
        link = self._snapshot / name
        self._make(link.parent)
        aside = link.with_name(f"{link.name}.tandem-new")
        aside.unlink(missing_ok=True)
        aside.symlink_to(os.path.relpath(blob, link.parent))
        os.lchown(aside, *self._owner)
        aside.rename(link)

    def finish(self, files: dict[str, dict[str, Any]]) -> None:
        """The whole revision is here: name it, and keep the proof. Raises OSError when it is not whole."""
        state = model_files.main(str(self._repo.parent), self._folder, self._revision, prove=True)
        lacking = sorted(set(files) - set(state["files"]))
        if state["problems"] or lacking:
            raise OSError("; ".join(state["problems"]) or f"missing: {', '.join(lacking)}")
        reference = self._repo / "refs" / "main"
        if not reference.exists():
            reference.write_text(self._revision)
            os.chown(reference, *self._owner)

    def _receive(self, part: Path, entry: dict[str, Any], source: Source) -> None:
        size, git = entry["size"], len(entry["blob"]) == 40
        hasher = hashlib.sha1(b"blob %d\0" % size) if git else hashlib.sha256()
        start = part.stat().st_size if part.exists() else 0
        if start > size:
            start = 0
        with part.open("r+b" if start else "wb") as file:
            os.fchown(file.fileno(), *self._owner)
            while file.tell() < start:
                hasher.update(file.read(min(1 << 22, start - file.tell())))
            for chunk in source(start) if start < size else ():
                hasher.update(chunk)
                file.write(chunk)
            file.truncate()
            os.fsync(file.fileno())
        if part.stat().st_size < size:
            raise OSError(f"{part.name} broke off at {part.stat().st_size} of {size} bytes; the next run goes on there")
        if hasher.hexdigest() != entry["blob"]:
            part.unlink()
            raise OSError(
                f"{entry['blob'][:12]}: what arrived has another hash; it was thrown away, run the deploy again"
            )

    def _make(self, folder: Path) -> None:
        """A folder and its parents, owned by whoever owns the store."""
        if not folder.exists():
            self._make(folder.parent)
            folder.mkdir(exist_ok=True)
            os.chown(folder, *self._owner)


def _owner_of(path: Path) -> tuple[int, int]:
    while not path.exists():
        path = path.parent
    stat = path.stat()
    return stat.st_uid, stat.st_gid


def _reader(file: Path) -> Source:
    def read(start: int) -> Iterator[bytes]:
        with file.open("rb") as content:
            content.seek(start)
            while chunk := content.read(1 << 22):
                yield chunk

    return read
