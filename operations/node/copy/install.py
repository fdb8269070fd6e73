"""Put a model into the store, file by file: written aside, proven, renamed. Nothing bad ever has a good name."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from operations.node.copy import known
from operations.node.copy.meter import Meter
from operations.node.copy.partial import PartialFile
from operations.node.disk_space import fits
from operations.node.model import marks, mend, proof
from operations.node.model.folders import source_snapshot
from operations.wire.model import Copied, ModelFile

#: Files that are taken from a folder at once: the disk is busy while a hash is computed.
AT_ONCE = 4

#: Puts a file's bytes from an offset on into a buffer, again and again, and yields how many they are.
Source = Callable[[int, memoryview], Iterator[int]]


def main(
    store: str,
    folder: str,
    revision: str,
    source: str,
    kind: str = "model",
    plain: bool = True,
    only: Sequence[str] = (),
) -> Copied:
    """On the head: take a revision from a folder (an HF cache, or, where it may be `plain`, the model's own files).
    `only`: patterns of the files that are wanted; none: all.
    """
    snapshot = source_snapshot(source, folder, revision, plain)
    if snapshot is None:
        return {"error": f"{source} has not {folder} at {revision}"}
    files = proof.manifest(snapshot, only)
    if not files:
        return {"error": f"{snapshot} has no file that is named {' or '.join(only)}"}
    for name, entry in files.items():
        if len(entry["blob"]) not in (40, 64):
            entry["blob"] = proof.content_hash(snapshot / name, git=not name.endswith((".safetensors", ".gguf")))
    installer = Installer(store, folder, revision, kind, only)
    try:
        missing = installer.missing(files)
        meter = installer.expect(files[name] for name in missing)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            tasks = [pool.submit(installer.add, n, files[n], _reader(snapshot / n, meter)) for n in missing]
            for task in tasks:
                task.result()
        installer.finish(files)
    except OSError as error:
        return {"error": str(error)}
    return {"done": True, **meter.state()}


class Installer:
    """One revision of one model in an HF cache: blobs by their hash, a snapshot of links to them."""

    def __init__(self, store: str, folder: str, revision: str, kind: str = "model", only: Sequence[str] = ()) -> None:
        """`only`: patterns of the files that are meant; none: all that it has."""
        self._repo = Path(store) / folder
        self.snapshot = self._repo / "snapshots" / revision
        self.meter = Meter()
        self._folder, self._revision, self._kind, self._only = folder, revision, kind, only
        self._owner = _owner_of(self._repo)
        self._arrived: set[str] = set()
        self._recording = Lock()
        self._receiving: defaultdict[str, Lock] = defaultdict(Lock)
        marks.begin(self.snapshot)
        self._make(self._repo / "blobs")
        self._make(self._repo / "refs")
        self._make(self.snapshot)

    def expect(self, entries: Iterable[ModelFile]) -> Meter:
        """These are to come. Raises OSError when they do not fit; what an earlier try has left of them is here."""
        left = sum(entry["size"] - self._arrived_of(entry["blob"]) for entry in entries)
        fits(self._repo, left)
        self.meter = Meter(left)
        return self.meter

    def missing(self, files: dict[str, ModelFile]) -> list[str]:
        """Names that are not here with the right size, link, structure and content; what is wrong is moved aside."""
        proof.expect_only(self.snapshot, files, self._only)
        here = proof.manifest(self.snapshot, self._only)
        problems = proof.structure_problems(self.snapshot, self._kind, only=self._only)
        # A size says nothing of a flipped bit: what was not proven is hashed before it is taken for good.
        unproven = proof.unproven_names(self.snapshot, here)
        problems += proof.prove_content(self.snapshot, here, unproven)
        broken = {problem.name for problem in problems}
        names = []
        for name, entry in files.items():
            file = self.snapshot / name
            good = file.exists() and file.stat().st_size == entry["size"] and name not in broken
            if good and here[name]["blob"] == entry["blob"]:
                continue
            if file.exists() and not good:
                mend.set_aside(file)
            names.append(name)
        # These are no longer to be read or sent, but have no name here yet.
        known.main(self._repo, (files[name] for name in names))
        return names

    def add(self, name: str, entry: ModelFile, source: Source) -> None:
        """Bring one file in; goes on where an earlier try broke off. Raises OSError when its content is wrong."""
        blob = self._repo / "blobs" / entry["blob"]
        # Two names may have one content.
        with self._receiving[blob.name]:
            if not blob.exists():
                self._receive(self._part(blob.name), entry, source)
                self._part(blob.name).rename(blob)
                blob.with_name(f"{blob.name}.broken").unlink(missing_ok=True)
                self._arrived.add(blob.name)
        link = self.snapshot / name
        self._make(link.parent)
        aside = link.with_name(f"{link.name}.tandem-new")
        aside.unlink(missing_ok=True)
        aside.symlink_to(os.path.relpath(blob, link.parent))
        os.lchown(aside, *self._owner)
        aside.rename(link)
        if blob.name in self._arrived:
            with self._recording:
                proof.keep_proof(self.snapshot, [name])

    def finish(self, files: dict[str, ModelFile]) -> None:
        """The whole revision is here: name it, and keep the proof. Raises OSError when it is not whole."""
        place = (self._folder, self._revision, self._kind, self._only)
        state = proof.main(str(self._repo.parent), *place, prove=True)
        lacking = sorted(set(files) - set(state["files"]))
        if state["problems"] or lacking:
            raise OSError("; ".join(state["problems"]) or f"missing: {', '.join(lacking)}")
        marks.end(self.snapshot)
        reference = self._repo / "refs" / "main"
        if not reference.exists():
            reference.write_text(self._revision)
            os.chown(reference, *self._owner)

    def _arrived_of(self, blob: str) -> int:
        """Bytes of a blob that an earlier try has left."""
        there = next((file for file in (self._repo / "blobs" / blob, self._part(blob)) if file.exists()), None)
        return there.stat().st_size if there else 0

    def _part(self, blob: str) -> Path:
        return self._repo / "blobs" / f"{blob}.part"

    def _receive(self, path: Path, entry: ModelFile, source: Source) -> None:
        size, git = entry["size"], len(entry["blob"]) == 40
        hasher = hashlib.sha1(b"blob %d\0" % size) if git else hashlib.sha256()
        with PartialFile(path, size, self._owner) as part:
            for piece in part.beginning():
                hasher.update(piece)
            for length in source(part.start, part.buffer) if part.start < size else ():
                with self.meter.waiting("hash"):
                    hasher.update(part.buffer[:length])
                with self.meter.waiting("disk"):
                    part.write(length)
            arrived = part.sync()
        if arrived < size:
            raise OSError(f"{path.name} broke off at {arrived} of {size} bytes; the next run goes on there")
        if arrived > size or hasher.hexdigest() != entry["blob"]:
            path.unlink()
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


def filled(read_into: Callable[[memoryview], int], buffer: memoryview) -> Iterator[int]:
    """Fill the buffer again and again; each time how full it is: to the brim, but for the last."""
    full = 0
    while size := read_into(buffer[full:]):
        full += size
        if full == len(buffer):
            yield full
            full = 0
    if full:
        yield full


def _reader(file: Path, meter: Meter) -> Source:
    def read(start: int, buffer: memoryview) -> Iterator[int]:
        with file.open("rb", buffering=0) as content:
            content.seek(start)
            for size in filled(content.readinto, buffer):
                meter.count(size)
                yield size

    return read
