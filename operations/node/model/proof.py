"""Is a model complete? Checked by structure in milliseconds, by content (sha256) once for each file."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from operations import paths
from operations.node.model import gguf
from operations.wire.model import ModelFile, ModelState

#: Where the stamps of files whose content was proven are kept.
PROVEN = Path(paths.PROVEN)

#: Names of files -> size, time in ns and inode of those that were proven; empty: it has to be fetched again.
Stamps = dict[str, list[int]]


class Problem(NamedTuple):
    """What is wrong with a file of a snapshot. `name` as the manifest has it; empty: the snapshot as a whole."""

    name: str
    text: str


def main(
    store: str,
    folder: str,
    revision: str,
    kind: str = "model",
    only: Sequence[str] = (),
    prove: bool = False,
    again: bool = False,
) -> ModelState:
    """State of a revision in the store; `prove` hashes what was not hashed before, with `again` everything.

    `kind`: what it has to be, see `structure_problems`. `only`: patterns of its files, whatever else the revision has;
    none: all. `touched`: files that were proven and have been written to since.
    """
    snapshot = Path(store) / folder / "snapshots" / revision
    files = manifest(snapshot, only)
    if not snapshot.is_dir() or (only and not files):
        return {"present": False, "problems": [], "files": {}, "proven": False, "touched": []}
    changed = unproven_names(snapshot, files)
    unproven = list(files) if again else changed
    problems = structure_problems(snapshot, kind, proven=set(files) - set(unproven), only=only)
    named = {problem.name for problem in problems}
    problems += [
        Problem(name, f"{snapshot / name} is missing: it was here when the revision was proven")
        for name in _gone(snapshot)
        if name not in named and is_wanted(name, only)
    ]
    if prove and not problems:
        problems += prove_content(snapshot, files, unproven)
        if problems:
            _forget(snapshot, {problem.name for problem in problems})
        else:
            keep_proof(snapshot, files)
            unproven = changed = []
    touched = sorted(_read(_record(snapshot)).keys() & set(changed))
    said = [problem.text for problem in problems]
    return {"present": True, "problems": said, "files": files, "proven": not unproven, "touched": touched}


def is_wanted(name: str, only: Sequence[str]) -> bool:
    """Whether a file is among those of these patterns; without any all are."""
    return not only or any(fnmatchcase(name, each) for each in only)


def unproven_names(snapshot: Path, files: dict[str, ModelFile]) -> list[str]:
    """Files whose content was never proven, or that were touched since."""
    known = _read(_record(snapshot))
    return [name for name in files if known.get(name) != _stamp(snapshot / name)]


def _gone(snapshot: Path) -> list[str]:
    """Files that were proven here and have no name any more; a link that leads nowhere is named already."""
    return [name for name in _read(_record(snapshot)) if not _there(snapshot / name)]


def keep_proof(snapshot: Path, names: Iterable[str]) -> None:
    """The content of these files has been proven: not again until they are touched."""
    _write(snapshot, _read(_record(snapshot)) | {name: _stamp(snapshot / name) for name in names})


def _forget(snapshot: Path, names: Collection[str]) -> None:
    """The content of these files is not what was proven once: the next deploy fetches them."""
    known = _read(_record(snapshot))
    if known:
        _write(snapshot, {name: [] if name in names else stamp for name, stamp in known.items()})


def expect_only(snapshot: Path, names: Collection[str], only: Sequence[str] = ()) -> None:
    """Among files with the patterns `only` the revision has just these: others, once proven, are not missed."""
    known = _read(_record(snapshot))
    kept = {name: stamp for name, stamp in known.items() if name in names or not is_wanted(name, only)}
    if kept != known:
        _write(snapshot, kept)


def _write(snapshot: Path, stamps: Stamps) -> None:
    record = _record(snapshot)
    record.parent.mkdir(parents=True, exist_ok=True)
    aside = record.with_suffix(".part")
    aside.write_text(json.dumps(stamps))
    aside.rename(record)


def _record(snapshot: Path) -> Path:
    return PROVEN / snapshot.parents[1].name / f"{snapshot.name}.json"


def structure_problems(
    snapshot: Path, kind: str = "model", proven: Collection[str] = (), only: Sequence[str] = ()
) -> list[Problem]:
    """What is missing, dangling or truncated, each named with its file; headers of proven files are not read again.

    A `model` has a configuration and all its weights, an `adapter` its own of both, a `gguf` all parts of each of its
    files; of `files` (a tokenizer, a configuration) nobody but the engine knows which it needs. `only`: patterns of
    the files that are looked at; none: all.
    """
    problems, names = list[Problem](), list[str]()
    for name, file in _named(snapshot, only):
        names.append(name)
        if file.is_symlink() and not file.exists():
            problems.append(Problem(name, f"{file}: its blob {os.readlink(file)} is missing"))
        elif file.suffix == ".safetensors" and name not in proven and file.is_file():
            problems += [Problem(name, text) for text in _truncated(file)]
        elif file.suffix == ".gguf" and name not in proven and file.is_file():
            problems += [Problem(name, text) for text in gguf.problems(file)]
    if kind == "gguf":
        return problems + [Problem(name, text) for name, text in gguf.missing(snapshot, names)]
    configuration = {"model": "config.json", "adapter": "adapter_config.json"}.get(kind)
    if not configuration:
        return problems
    if not (snapshot / configuration).exists():
        problems.append(Problem(configuration, f"{snapshot}/{configuration} is missing"))
    for index in sorted(snapshot.glob("*.safetensors.index.json")):
        if not index.exists() or not is_wanted(index.name, only):
            continue
        try:
            shards = set(json.loads(index.read_text())["weight_map"].values())
        except (ValueError, KeyError, AttributeError):
            problems.append(Problem(index.name, f"{index} is not an index of shards"))
            continue
        problems += [
            Problem(shard, f"{snapshot / shard} is missing: the index names it")
            for shard in sorted(shards)
            if not _there(snapshot / shard)
        ]
    if not any(snapshot.glob("*.safetensors")) and not any(snapshot.glob("*.bin")):
        problems.append(Problem("", f"{snapshot} has no weights (*.safetensors)"))
    return problems


def _there(file: Path) -> bool:
    # A dangling link is named already.
    return file.exists() or file.is_symlink()


def _truncated(file: Path) -> list[str]:
    """A safetensors file says in its header where its last byte is: no need to read it to see that it is cut."""
    size = file.stat().st_size
    try:
        with file.open("rb") as shard:
            (length,) = struct.unpack("<Q", shard.read(8))
            header = json.loads(shard.read(min(length, size)))
        end = max((t["data_offsets"][1] for name, t in header.items() if name != "__metadata__"), default=0)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError):
        return [f"{file} is not a safetensors file ({size} bytes)"]
    if 8 + length + end != size:
        return [f"{file} has {size} bytes, its header says {8 + length + end}"]
    return []


def manifest(snapshot: Path, only: Sequence[str] = ()) -> dict[str, ModelFile]:
    """name -> {size, blob}: `blob` is the etag of the Hub where the cache has it as the blob's name. `only`: patterns
    of the files that are meant; none: all.
    """
    files: dict[str, ModelFile] = {}
    for name, file in _named(snapshot, only):
        if file.is_file():
            # One link further on may lie the Hub client's shared store, where names are not hashes of the content.
            blob = Path(os.readlink(file)).name if file.is_symlink() else ""
            files[name] = {"size": file.stat().st_size, "blob": blob}
    return files


def _named(snapshot: Path, only: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """What lies in a snapshot and is wanted, with its name there."""
    for file in sorted(snapshot.rglob("*")):
        if is_wanted(name := str(file.relative_to(snapshot)), only):
            yield name, file


def prove_content(snapshot: Path, files: dict[str, ModelFile], names: list[str]) -> list[Problem]:
    """Compare the content of LFS files, whose blob is named by its sha256, and of small ones, named by git's sha1."""

    def wrong(name: str) -> Problem | None:
        blob = files[name]["blob"]
        if len(blob) not in (40, 64) or content_hash(snapshot / name, git=len(blob) == 40) == blob:
            return None
        return Problem(name, f"{snapshot / name}: its content is not what its hash {blob[:12]} says")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [problem for problem in pool.map(wrong, names) if problem]


def content_hash(file: Path, *, git: bool) -> str:
    """sha256 of a file, or git's sha1 of it as a blob."""
    hasher = hashlib.sha1(b"blob %d\0" % file.stat().st_size) if git else hashlib.sha256()
    with file.open("rb") as content:
        while chunk := content.read(1 << 22):
            hasher.update(chunk)
    return hasher.hexdigest()


def _stamp(file: Path) -> list[int]:
    stat = file.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ino]


def _read(record: Path) -> Stamps:
    try:
        known: Stamps = json.loads(record.read_text())
    except (OSError, ValueError):
        return {}
    return known
