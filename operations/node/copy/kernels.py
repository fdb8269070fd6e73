"""Kernels from the node that has compiled them: whole by the hashes that it has listed, or not taken at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from operations.node.copy.meter import Meter
from operations.node.copy.source import Source
from operations.node.copy.swarm import STREAMS
from operations.node.disk_space import fits
from operations.node.kernels import compiled, kept
from operations.wire.kernels import CHANGED, KeptFile, Made, Offered
from operations.wire.model import Copied

CHUNK = 1 << 20


def receive(source: Source, place: str, made: Made) -> Copied:
    """Take the kernels of a place, made for this. What lies there already stays as it is.

    They are put aside, proven, and renamed. The list of files comes last: what was broken off has none. An engine may
    compile nothing: then the list is empty. Raises OSError where they do not fit or the source breaks off.
    """
    here = compiled.CACHE / place
    compiled.unlink_link(here)
    if here.exists() and compiled.read(here) != made:
        return {"error": "what lies here was compiled for something else, or nobody knows: the next start clears it"}
    with source.get("/kernels") as body:
        told: Offered = json.load(body)
    if told["made"] != made:
        return {"error": "it has none for this image and processor any more"}
    files = told["files"]
    for name in files:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            return {"error": f"{name!r} lies outside of its folder"}
    part = kept.part_of(here)
    shutil.rmtree(part, ignore_errors=True)
    meter = Meter(sum(entry["size"] for entry in files.values()))
    fits(part, sum(entry["size"] for entry in files.values()))
    part.mkdir(parents=True)
    try:
        if broken := _all(source, part, files, meter):
            return {"error": f"{broken} {CHANGED}"}
        # A name on the disk before its content would be a broken kernel after a power cut.
        os.sync()
        for name in files:
            kept.forget(part / name)
        compiled.put(here, made)
        _settle(part, here, files)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    compiled.put_files(here, files)
    return {"done": True, **meter.state()}


def _all(source: Source, part: Path, files: dict[str, KeptFile], meter: Meter) -> str:
    """Bring all files; the first whose content is not what is listed, or nothing. Ends with the first that fails:
    behind a source without power each of the others would wait in vain.
    """
    for folder in {(part / name).parent for name in files}:
        folder.mkdir(parents=True, exist_ok=True)
    pool = ThreadPoolExecutor(STREAMS)
    try:
        tasks = {
            pool.submit(_one, source, rail, part, name, files[name], meter): name for rail, name in enumerate(files)
        }
        return next((tasks[task] for task in as_completed(tasks) if not task.result()), "")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _one(source: Source, rail: int, part: Path, name: str, entry: KeptFile, meter: Meter) -> bool:
    """Bring one file; whether its content is what is listed. Its time stays: ninja builds anew what is newer."""
    file, hasher = part / name, hashlib.sha256()
    with source.get(f"/file/{quote(name)}", rail=rail) as body, file.open("wb") as out:
        while chunk := body.read(CHUNK):
            hasher.update(chunk)
            out.write(chunk)
            meter.count(len(chunk))
    # No program of an engine's runs as somebody else.
    file.chmod(entry["mode"] & 0o777)
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
