"""Kernels from the node that has compiled them: whole by the hashes that it has listed, or not taken at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from operations.node.copy.disk_space import fits
from operations.node.copy.meter import Meter
from operations.node.copy.source import Source
from operations.node.copy.swarm import STREAMS
from operations.node.kernels import compiled, kept
from operations.wire.kernels import KeptFile, Made, Offered
from operations.wire.model import Copied

CHUNK = 1 << 20


def receive(source: Source, place: str, made: Made) -> Copied:
    """Take the kernels of a place, made for this. What lies there already stays as it is.

    They are put aside, proven, and renamed. The list of files comes last: what was broken off has none. Raises OSError
    where they do not fit or the source breaks off.
    """
    with source.get("/kernels") as body:
        told: Offered = json.load(body)
    if told["made"] != made:
        return {"error": "it has none for this image and processor any more"}
    if not told["files"]:
        # An engine may compile nothing.
        return {"done": True, **Meter().state()}
    files, here = told["files"], compiled.CACHE / place
    for name in files:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            return {"error": f"{name!r} lies outside of its folder"}
    part = kept.part_of(here)
    shutil.rmtree(part, ignore_errors=True)
    meter = Meter(sum(entry["size"] for entry in files.values()))
    fits(part, sum(entry["size"] for entry in files.values()))
    part.mkdir(parents=True)
    try:
        with ThreadPoolExecutor(STREAMS) as pool:
            tasks = [pool.submit(_one, source, rail, part, name, files[name], meter) for rail, name in enumerate(files)]
            broken = [name for task, name in zip(tasks, files, strict=True) if not task.result()]
        if broken:
            return {"error": f"{broken[0]} is not what it was when a start with it had served"}
        # A name on the disk before its content would be a broken kernel after a power cut.
        os.sync()
        for name in files:
            kept.forget(part / name)
        _settle(part, here, files)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    compiled.put(here, made)
    compiled.put_files(here, files)
    return {"done": True, **meter.state()}


def _one(source: Source, rail: int, part: Path, name: str, entry: KeptFile, meter: Meter) -> bool:
    """Bring one file; whether its content is what is listed. Its time stays: ninja builds anew what is newer."""
    file, hasher = part / name, hashlib.sha256()
    file.parent.mkdir(parents=True, exist_ok=True)
    with source.get(f"/file/{quote(name)}", rail=rail) as body, file.open("wb") as out:
        while chunk := body.read(CHUNK):
            hasher.update(chunk)
            out.write(chunk)
            meter.count(len(chunk))
    file.chmod(entry["mode"])
    os.utime(file, ns=(entry["written"], entry["written"]))
    return hasher.hexdigest() == entry["sha256"]


def _settle(part: Path, here: Path, files: dict[str, KeptFile]) -> None:
    """Proven files get their names: all at once where nothing is there, else each that is not."""
    if not here.exists():
        part.rename(here)
        return
    for name in files:
        if not os.path.lexists(here / name) and kept.is_within(here, name):
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            (part / name).rename(here / name)
