"""Kernels with which a start has served are listed file by file, so that others may have them; and fit into a room."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from operations.node.commands import read
from operations.node.disk_space import fits
from operations.node.kernels import compiled
from operations.paths import ETC
from operations.wire.kernels import Kept, KeptFile, Kernels, Made

#: Scripts of units: which kernels they start with.
SCRIPTS = Path(ETC)
#: Bytes for all kernels of a node. Those of a plan are some hundred MiB to a few GiB (FlashInfer's sources and objects
#: beside what torch has compiled): room for about ten plans, and little of a Spark's 1 to 4 TB.
ROOM = 24 << 30
#: Files that are hashed at once: engines serve meanwhile.
HASHERS = 4
#: A place, as run.sh names it.
_PLACE = re.compile(r"/var/lib/tandem/cache/([0-9a-f]{12}/[0-9a-f]{12})\b")


def state() -> Kernels:
    """All that lies here, without a look into it."""
    kept: dict[str, Kept] = {}
    for place in (each for tag in compiled.CACHE.glob("*") for each in compiled.places(tag)):
        if made := compiled.read(place):
            kept[f"{place.parent.name}/{place.name}"] = {"made": made, "proven": compiled.is_proven(place)}
    return {"gpu": compiled.processor(gpu=True), "cpu": compiled.processor(gpu=False), "kept": kept}


def keep(paths: Mapping[str, Sequence[str]], bound: bool = True) -> list[str]:
    """List the files of these places, below `paths` in each: a start with them has served. Says which kernels had to go
    for them, where that is to be looked at (`bound`).
    """
    for name, below in paths.items():
        place = compiled.CACHE / name
        if compiled.read(place) and place.is_dir():
            compiled.put_files(place, _listed(place, below, compiled.files(place) or {}))
    return make_room({*paths, *_named()}) if bound else []


def begin_with(place: str, made: Made, paths: Sequence[str]) -> bool:
    """A plan without kernels begins with another plan's: the one started last here for the same image and processor,
    of those with which a start has served. Only entries whose names say all that they depend on are copied, as they are
    listed. Returns whether there were any.
    """
    here = compiled.CACHE / place
    others = [each for each in compiled.places(here.parent) if each != here and compiled.is_proven(each)]
    alike = [each for each in others if compiled.read(each) == made]
    if not alike or here.exists():
        return False
    source, part = max(alike, key=compiled.used), part_of(here)
    listed = offered(f"{source.parent.name}/{source.name}", made)
    found = {name: entry for name, entry in listed.items() if name.startswith(tuple(f"{path}/" for path in paths))}
    shutil.rmtree(part, ignore_errors=True)
    try:
        fits(part, sum(entry["size"] for entry in found.values()))
        for name in found:
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            # An engine that runs there takes its temporary files away.
            with suppress(FileNotFoundError):
                shutil.copy2(source / name, part / name, follow_symlinks=False)
        if not part.exists():
            return False
        # A name on the disk before its content would be a broken kernel after a power cut.
        os.sync()
        compiled.begin(here, made)
        part.rename(here)
    except OSError:
        return False
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return True


def part_of(place: Path) -> Path:
    """Where kernels are until they are whole."""
    return place.with_name(f"{place.name}.part")


def offered(place: str, made: Made) -> dict[str, KeptFile]:
    """What can be handed on: files that nobody has written to since they were listed. None where it is for another
    image or processor.
    """
    here = compiled.CACHE / place
    found = (compiled.files(here) or {}) if compiled.read(here) == made else {}
    return {name: entry for name, entry in found.items() if _is_as_listed(here, name, entry)}


def mend(place: str, paths: Sequence[str]) -> list[str]:
    """Remove files whose content no longer matches the list although size and time do: the disk has changed them.
    Each goes with all of its entry, the first folder below one of `paths`. The next start compiles that anew. Returns
    the entries.
    """
    here = compiled.CACHE / place
    found = compiled.files(here) or {}
    listed = (name for name, entry in found.items() if _is_as_listed(here, name, entry))
    broken = [name for name in listed if hash_of(here / name) != found[name]["sha256"]]
    entries = {_entry(name, paths) for name in broken}
    for each in entries:
        aside = here / each
        shutil.rmtree(aside) if aside.is_dir() else aside.unlink(missing_ok=True)
    if entries:
        compiled.put_files(here, {name: found[name] for name in found if _entry(name, paths) not in entries})
    return sorted(entries)


def make_room(used: Collection[str], room: int = ROOM) -> list[str]:
    """Take away kernels until all fit into `room` bytes, those first that were used least of late; never those of
    places in `used`. Returns what went.
    """
    every = [each for tag in compiled.CACHE.glob("*") if tag.is_dir() for each in tag.iterdir()]
    sizes = {each: _size(each) for each in every if each.is_dir() and not each.is_symlink()}
    total, gone = sum(sizes.values()), list[str]()
    for each in sorted(sizes, key=compiled.used):
        name = f"{each.parent.name}/{each.name}"
        if total > room and name not in used:
            with suppress(OSError):
                compiled.drop(each)
                total -= sizes[each]
                gone.append(name)
    return gone


def is_within(place: Path, name: str) -> bool:
    """Whether a name leads to where it says. An engine's container can make links in its folder: what they lead to is
    the node's, and neither read nor written here.
    """
    return os.path.realpath(place / name) == os.path.join(os.path.realpath(place), name)


def hash_of(path: Path) -> str:
    """sha256 of a file's content."""
    hasher = hashlib.sha256()
    with path.open("rb") as content:
        while chunk := content.read(1 << 20):
            hasher.update(chunk)
    forget(path)
    return hasher.hexdigest()


def forget(path: Path) -> None:
    """Have the kernel cache nothing of a file that is on the disk: on unified memory an engine would miss that."""
    with path.open("rb") as content:
        os.posix_fadvise(content.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _named() -> set[str]:
    """Places that units here start with."""
    return {place for script in SCRIPTS.glob("*/run.sh") for place in _PLACE.findall(read(script))}


def _listed(place: Path, paths: Sequence[str], before: Mapping[str, KeptFile]) -> dict[str, KeptFile]:
    """What was listed and not written to since keeps its hash: a disk that has changed it is found by that."""

    def entry(name: str) -> KeptFile | None:
        known = before.get(name)
        if known and _is_as_listed(place, name, known):
            return known
        with suppress(OSError):
            seen = (place / name).lstat()
            found: KeptFile = {
                "size": seen.st_size,
                "written": seen.st_mtime_ns,
                "mode": stat.S_IMODE(seen.st_mode),
                "sha256": hash_of(place / name),
            }
            # The engine runs: what it has written meanwhile is not known.
            return found if _is_as_listed(place, name, found) else None
        return None

    names = sorted({name for path in paths for name in _names(place, path)})
    with ThreadPoolExecutor(HASHERS) as pool:
        return {name: found for name, found in zip(names, pool.map(entry, names), strict=True) if found}


def _names(place: Path, path: str) -> Iterator[str]:
    """Files below a path, without links, and without what only says that somebody is at work."""
    for folder, _, names in os.walk(place / path) if is_within(place, path) else ():
        for name in names:
            file = Path(folder) / name
            if not name.endswith(".lock") and not file.is_symlink() and file.is_file():
                yield str(file.relative_to(place))


def _is_as_listed(place: Path, name: str, entry: KeptFile) -> bool:
    try:
        seen = (place / name).lstat()
    except OSError:
        return False
    if not is_within(place, name):
        return False
    return stat.S_ISREG(seen.st_mode) and (seen.st_size, seen.st_mtime_ns) == (entry["size"], entry["written"])


def _entry(name: str, paths: Sequence[str]) -> str:
    path = next((each for each in paths if name.startswith(f"{each}/")), "")
    return "/".join((path, name[len(path) + 1 :].partition("/")[0])) if path else name


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += (Path(place) / name).lstat().st_size
    return total
