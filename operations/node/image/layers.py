"""An image as the layers that a peer lacks, straight from Docker's overlay2 store.

`docker save` writes every layer to a temporary folder before the first byte is out, whatever the peer has. Here the
layers that the peer names are left out: `docker load` takes them from its own store, and proves each that comes by
its hash. A layer's tar is put together again from its files and from what Docker keeps of the original
(tar-split: the headers and paddings, byte for byte). Docker with the containerd store keeps nothing of the kind: there
`docker save` it is.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from operations.node.commands import docker_inspect, output, read
from operations.wire import Json

CHUNK = 1 << 20


def present() -> list[str]:
    """Chain ids of the layers that are in this node's store; none for a store that is not overlay2's."""
    root = store()
    return sorted(entry.name for entry in (root / "layerdb/sha256").iterdir()) if root else []


def store() -> Path | None:
    """Docker's own database of images; None: it has another one."""
    info = json.loads(output("docker", "info", "--format", "{{json .}}") or "{}")
    root = Path(info.get("DockerRootDir", "/var/lib/docker")) / "image/overlay2"
    return root if info.get("Driver") == "overlay2" and (root / "layerdb/sha256").is_dir() else None


@dataclass(frozen=True)
class Layer:
    """One layer of an image. `size`: bytes of its tar; 0 for one that is not sent."""

    name: str
    folder: Path
    files: Path
    size: int


def archive(image: str, have: Sequence[str]) -> tuple[int, Iterator[bytes]] | None:
    """The size and the bytes of an archive for `docker load`; None where only `docker save` can make one."""
    root = store()
    found = docker_inspect("image", image)
    if root is None or not found:
        return None
    image_id = found[0]["Id"].partition(":")[2]
    config = (root / "imagedb/content/sha256" / image_id).read_bytes()
    try:
        layers = list(_layers(root, found[0]["RootFS"]["Layers"], set(have)))
    except OSError:
        return None
    manifest: list[Json] = [
        {"Config": f"{image_id}.json", "RepoTags": [image], "Layers": [f"{layer.name}.tar" for layer in layers]}
    ]
    sent = [layer for layer in layers if layer.size]
    entries = [(f"{image_id}.json", len(config)), *((f"{layer.name}.tar", layer.size) for layer in sent)]
    text = json.dumps(manifest).encode()
    total = sum(512 + _padded(size) for _, size in [*entries, ("manifest.json", len(text))]) + 1024
    return total, _stream(config, f"{image_id}.json", sent, text)


def _layers(root: Path, diffs: Sequence[str], have: set[str]) -> Iterator[Layer]:
    chain = ""
    for diff in diffs:
        chain = hashlib.sha256(f"{chain} {diff}".encode()).hexdigest() if chain else diff.partition(":")[2]
        chain = chain if chain.startswith("sha256:") else f"sha256:{chain}"
        digits = chain.partition(":")[2]
        folder = root / "layerdb/sha256" / digits
        files = root.parents[1] / "overlay2" / read(folder / "cache-id") / "diff"
        size = 0 if digits in have else sum(_length(entry) for entry in _entries(folder))
        yield Layer(diff.partition(":")[2], folder, files, size)


def _entries(folder: Path) -> Iterator[Json]:
    with gzip.open(folder / "tar-split.json.gz", "rt") as lines:
        for line in lines:
            yield json.loads(line)


def _length(entry: Json) -> int:
    return int(entry.get("size", 0)) if entry["type"] == 1 else len(base64.b64decode(entry.get("payload") or ""))


def _stream(config: bytes, config_name: str, layers: Sequence[Layer], manifest: bytes) -> Iterator[bytes]:
    yield _header(config_name, len(config)) + config + _padding(len(config))
    for layer in layers:
        yield _header(f"{layer.name}.tar", layer.size)
        yield from _gathered(_content(layer))
        yield _padding(layer.size)
    yield _header("manifest.json", len(manifest)) + manifest + _padding(len(manifest)) + bytes(1024)


def _content(layer: Layer) -> Iterator[bytes]:
    """The layer's tar, as it was when it was made."""
    for entry in _entries(layer.folder):
        if entry["type"] != 1:
            yield base64.b64decode(entry.get("payload") or "")
        elif left := int(entry.get("size", 0)):
            name = base64.b64decode(entry["name_raw"]) if entry.get("name_raw") else entry["name"].encode()
            with open(bytes(layer.files) + b"/" + name.lstrip(b"/"), "rb") as file:
                while left and (chunk := file.read(min(CHUNK, left))):
                    left -= len(chunk)
                    yield chunk
            if left:
                raise OSError(f"{layer.files}/{entry['name']} is shorter than its layer says")


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Small pieces, put together: a layer has thousands of files of a few bytes."""
    buffer = io.BytesIO()
    for piece in pieces:
        buffer.write(piece)
        if buffer.tell() >= CHUNK:
            yield buffer.getvalue()
            buffer = io.BytesIO()
    yield buffer.getvalue()


def _header(name: str, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry.tobuf(tarfile.GNU_FORMAT)


def _padded(size: int) -> int:
    return size + -size % 512


def _padding(size: int) -> bytes:
    return bytes(-size % 512)
