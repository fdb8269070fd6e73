"""What engines have compiled here, for their next starts: one folder for each image and plan (TAG/KEY, below CACHE).

`KEY.json` beside it says for which image content and processor the folder is (Made). Its modification time is that of
the last start. `KEY.files.json` lists its files once a start with them has served. Both are written aside and renamed.

It lands beside engines too (files/engine/made_for.py), so it imports nothing of Tandem's.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operations.wire.kernels import KeptFile, Made

CACHE = Path("/var/lib/tandem/cache")
#: The folder of Python's byte code below a place, and the bytes that have to be free for it. What a full disk cuts off
#: keeps its name, and ends every start that reads it.
BYTE_CODE, LEAST_FREE = "pycache", 2 << 30
PROC, PCI = Path("/proc"), Path("/sys/bus/pci/devices")
#: What is listed of a file (KeptFile).
_LISTED = {"size", "written", "mode", "sha256"}
#: How a folder is called while it goes.
GONE = ".gone-"
#: Lines of /proc/cpuinfo by which code for one processor is no code for another.
_CPU = re.compile(r"^(?:model name|flags|Features|CPU (?:implementer|part|variant))\s*:.*$", re.MULTILINE)


def processor(*, gpu: bool) -> str:
    """Name, PCI number and driver of the GPUs; or the CPU's kind. Empty: the driver has none.

    A chip's number says its compute capability too. Read in /proc: nvidia-smi would hang with a driver that does.
    """
    if not gpu:
        lines = sorted(set(_CPU.findall(_text(PROC / "cpuinfo"))))
        return f"{platform.machine()} {hashlib.sha256(repr(lines).encode()).hexdigest()[:12]}"
    driver = re.search(r"Kernel Module.*?(\d+\.[\d.]+)", _text(PROC / "driver/nvidia/version"))
    found = set[str]()
    for each in (PROC / "driver/nvidia/gpus").glob("*/information"):
        name = re.search(r"^Model:\s*(.+?)\s*$", _text(each), re.MULTILINE)
        if not name or name[1] == "Unknown":
            # The driver has not begun with it yet: nothing is to go for that.
            return ""
        found.add(f"{name[1]} {_text(PCI / each.parent.name / 'device').strip()}".strip())
    return f"{', '.join(sorted(found))}, driver {driver[1]}" if driver and found else ""


def places(tag: Path) -> list[Path]:
    """Those of an image of which it is known for what they are."""
    records = (each for each in tag.glob("*.json") if not each.name.endswith(".files.json"))
    found = (record.with_suffix("") for record in records)
    return sorted(place for place in found if place.is_dir() and not place.is_symlink())


def unlink_link(place: Path) -> None:
    """Where an older Tandem mounted the folder above, an engine could make a link here. It would be mounted, and
    written to.
    """
    if place.is_symlink():
        place.unlink()


def begin(place: Path, made: Made) -> str:
    """Before a start: what was compiled for something else goes, or for nobody knows what. Says so, or nothing. Where
    the driver does not tell the processor, only the image's content is compared. Raises OSError.
    """
    before, is_here = read(place), place.exists()
    if is_here and before and not made["processor"] and before["content"] == made["content"]:
        made = before
    said = _unlike(before, made) if is_here else ""
    if said or not is_here:
        # A removal that was broken off leaves a list without its files.
        drop(place)
    put(place, made)
    return said


def _unlike(before: Made | None, made: Made) -> str:
    """Why kernels of before are of no use; empty: they are of use."""
    if before == made:
        return ""
    why = "nobody knows for what they were compiled"
    if before and before["content"] != made["content"]:
        why = "this is another image"
    elif before:
        why = f"this is {made['processor']}, and it was {before['processor'] or 'an unknown one'}"
    return f"kernels are compiled anew: {why}"


def put(place: Path, made: Made) -> None:
    """It is for this, from now on, and was last used now. Raises OSError."""
    write(_record(place), made)


def read(place: Path) -> Made | None:
    """For what it is; None: nobody knows."""
    found = _json(_record(place))
    told = isinstance(found, dict) and all(isinstance(found.get(name), str) for name in ("content", "processor"))
    return {"content": found["content"], "processor": found["processor"]} if told else None


def used(place: Path) -> float:
    """When a start began with it last, in seconds since 1970; 0: nobody knows."""
    try:
        return _record(place).stat().st_mtime
    except OSError:
        return 0.0


def files(place: Path) -> dict[str, KeptFile] | None:
    """Its files as they were when a start with them had served; None: none has. A list that can't be read is removed:
    the next start that serves makes another.
    """
    found = _json(_files(place))
    has = isinstance(found, dict) and all(isinstance(each, dict) and each.keys() >= _LISTED for each in found.values())
    if not has:
        _files(place).unlink(missing_ok=True)
    return found if has and place.is_dir() else None


def is_proven(place: Path) -> bool:
    """Whether that is known, without a look at the files."""
    return _files(place).exists() and place.is_dir()


def put_files(place: Path, found: dict[str, KeptFile]) -> None:
    """A start has served with these. Raises OSError."""
    write(_files(place), found)


def drop(place: Path) -> None:
    """Take it away: it has no name any more before its records go, and these go before its first file. Broken off
    anywhere, it is never taken for what it is not. Raises OSError.
    """
    if place.exists() and not place.name.startswith(GONE):
        # What an earlier removal has left may not go: it is in nobody's way.
        place.rename(tempfile.mkdtemp(prefix=f"{GONE}{place.name}-", dir=place.parent))
    _files(place).unlink(missing_ok=True)
    _record(place).unlink(missing_ok=True)
    for each in (place, *place.parent.glob(f"{GONE}{place.name}*")):
        shutil.rmtree(each, ignore_errors=True)


def write(path: Path, value: object) -> None:
    """Whole, or not at all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.part")
    with aside.open("w") as out:
        json.dump(value, out)
        out.flush()
        os.fsync(out.fileno())
    aside.rename(path)


def _record(place: Path) -> Path:
    return place.with_name(f"{place.name}.json")


def _files(place: Path) -> Path:
    return place.with_name(f"{place.name}.files.json")


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
