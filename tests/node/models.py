"""Small models in HF cache layout, made with the lab's own model maker."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lab import model

FOLDER = "models--" + model.REPO.replace("/", "--")
#: Of the models that make_shards makes.
REVISION = "b" * 40


@contextmanager
def shared(port: int, store: str, before: str = "", **wanted: Any) -> Iterator[None]:
    """The share program in a process of its own, held by its standard input; `before`: code that runs there first."""
    wanted |= {"addresses": ["127.0.0.1"], "port": port, "peers": ["127.0.0.1"], "store": store}
    program = (
        f"{before}\nimport json; from operations.node.copy import share; print(json.dumps(share.main(**{wanted!r})))"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdin is not None
    assert json.loads(process.stdout.readline()) == {"ready": True}
    yield
    process.stdin.close()
    assert process.wait(timeout=5) == 0


def make(hub: Path) -> Path:
    """The tiny model in a cache; returns its snapshot."""
    plain = hub / "plain"
    plain.mkdir(parents=True)
    model.write(plain)
    model._as_cache(plain, hub / FOLDER)
    shutil.rmtree(plain)
    return hub / FOLDER / "snapshots" / model.revision()


def make_shards(hub: Path, count: int, size: int) -> Path:
    """A model of random shards of `size` bytes each, in a cache; returns its snapshot."""
    place = hub / FOLDER
    snapshot = place / "snapshots" / REVISION
    for folder in (snapshot, place / "blobs"):
        folder.mkdir(parents=True)
    config = b'{"model_type": "random"}'
    _add(place, "config.json", config, hashlib.sha1(b"blob %d\0" % len(config) + config).hexdigest())
    for number in range(count):
        header = json.dumps({"t": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
        content = len(header).to_bytes(8, "little") + header + os.urandom(size)
        _add(place, f"model-{number}.safetensors", content, hashlib.sha256(content).hexdigest())
    return snapshot


def _add(place: Path, name: str, content: bytes, blob: str) -> None:
    (place / "blobs" / blob).write_bytes(content)
    (place / "snapshots" / REVISION / name).symlink_to(f"../../blobs/{blob}")
