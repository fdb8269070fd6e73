"""Layers of an image, put together from Docker's store: the bytes that they were made of, none that the peer has."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from operations.node.copy import fetch, share
from operations.node.copy.source import Source
from operations.node.image import layers
from tests.support.serving import serving


def layer_tar(names: dict[str, bytes]) -> bytes:
    """A layer's tar as a builder writes it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as made:
        folder = tarfile.TarInfo("etc")
        folder.type = tarfile.DIRTYPE
        made.addfile(folder)
        for name, content in names.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o640
            made.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def split(tar: bytes, names: dict[str, bytes]) -> list[dict[str, Any]]:
    """What Docker keeps of a tar: everything but the files' contents."""
    entries: list[dict[str, Any]] = []
    at = 0
    for name, content in names.items():
        start = tar.index(content, at) if content else at
        entries.append({"type": 2, "payload": base64.b64encode(tar[at:start]).decode()})
        raw = {"name_raw": base64.b64encode(os.fsencode(name)).decode()} if not name.isascii() else {"name": name}
        entries.append({"type": 1, "size": len(content), "payload": "crc", "name": name, **raw})
        at = start + len(content)
    return [*entries, {"type": 2, "payload": base64.b64encode(tar[at:]).decode()}]


class Store:
    """Docker's overlay2 store with one image."""

    def __init__(self, root: Path) -> None:
        self.root, self.diffs, self.chains, self.tars = root, [], [], []  # type: ignore[var-annotated]

    def add(self, names: dict[str, bytes]) -> None:
        tar = layer_tar(names)
        diff = hashlib.sha256(tar).hexdigest()
        chain = diff
        if self.chains:
            chain = hashlib.sha256(f"sha256:{self.chains[-1]} sha256:{diff}".encode()).hexdigest()
        folder = self.root / "image/overlay2/layerdb/sha256" / chain
        folder.mkdir(parents=True)
        (folder / "cache-id").write_text(f"cache{len(self.chains)}")
        with gzip.open(folder / "tar-split.json.gz", "wt") as lines:
            lines.writelines(json.dumps(entry) + "\n" for entry in split(tar, names))
        for name, content in names.items():
            file = self.root / f"overlay2/cache{len(self.chains)}/diff" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        self.diffs.append(diff)
        self.chains.append(chain)
        self.tars.append(tar)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store(tmp_path)
    made.add({"etc/one": b"1" * 700, "etc/empty": b"", "etc/ü": b"umlaut"})
    made.add({"etc/two": os.urandom(3 << 20)})
    config = tmp_path / "image/overlay2/imagedb/content/sha256" / ("a" * 64)
    config.parent.mkdir(parents=True)
    config.write_text('{"config": true}')
    image = {"Id": f"sha256:{'a' * 64}", "RootFS": {"Layers": [f"sha256:{diff}" for diff in made.diffs]}}
    info = json.dumps({"Driver": "overlay2", "DockerRootDir": str(tmp_path)})
    monkeypatch.setattr(layers, "output", lambda *_: info)
    monkeypatch.setattr(layers, "docker_inspect", lambda *_: [image])
    return made


def opened(have: list[str]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The archive's files, and its manifest; its size is what was promised."""
    made = layers.archive("tandem/engine:1", have)
    assert made
    size, chunks = made
    content = b"".join(chunks)
    assert len(content) == size
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        files = {entry.name: archive.extractfile(entry).read() for entry in archive.getmembers()}  # type: ignore[union-attr]
    return files, json.loads(files["manifest.json"])[0]


def test_every_layer_comes_out_as_it_was_made(store: Store) -> None:
    files, manifest = opened([])
    assert manifest["RepoTags"] == ["tandem/engine:1"] and manifest["Config"] == f"{'a' * 64}.json"
    assert manifest["Layers"] == [f"{diff}.tar" for diff in store.diffs]
    assert [files[name] for name in manifest["Layers"]] == store.tars
    assert [hashlib.sha256(files[name]).hexdigest() for name in manifest["Layers"]] == store.diffs
    assert files[manifest["Config"]] == b'{"config": true}'


def test_what_the_peer_has_is_named_and_not_sent(store: Store) -> None:
    files, manifest = opened([store.chains[0]])
    assert manifest["Layers"] == [f"{diff}.tar" for diff in store.diffs]
    assert f"{store.diffs[0]}.tar" not in files and files[f"{store.diffs[1]}.tar"] == store.tars[1]
    files, _ = opened(store.chains)
    assert set(files) == {f"{'a' * 64}.json", "manifest.json"}


def test_the_layers_of_a_node_are_its_chain_ids(store: Store) -> None:
    assert layers.present() == sorted(store.chains)


def test_a_store_of_another_kind_is_left_to_docker(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "output", lambda *_: json.dumps({"Driver": "overlayfs", "DockerRootDir": "/x"}))
    assert layers.archive("tandem/engine:1", []) is None and layers.present() == []


def test_a_layer_that_lost_a_file_is_an_error_and_no_wrong_bytes(store: Store) -> None:
    (store.root / "overlay2/cache1/diff/etc/two").write_bytes(b"short")
    made = layers.archive("tandem/engine:1", [])
    assert made
    with pytest.raises(OSError, match="is shorter than its layer says"):
        list(made[1])


def source(url: str) -> Source:
    return Source(["127.0.0.1"], int(url.rpartition(":")[2]))


def test_any_number_of_layers_can_be_named_to_the_head(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = share.Shared(["127.0.0.1"], Path(), "tandem/engine:1")
    loaded = store.root / "loaded.tar"
    docker = store.root / "docker"
    docker.write_text(f"#!/bin/sh\ncat > {loaded}\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{store.root}:{os.environ['PATH']}")
    monkeypatch.setattr(fetch, "docker_root", lambda: store.root)
    others = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(5000)]
    monkeypatch.setattr(layers, "present", lambda: [*others, store.chains[1]])
    with serving(partial(share._Handler, shared)) as url:
        answer = fetch._image(source(url))
    assert answer.get("done"), answer
    with tarfile.open(loaded) as archive:
        assert set(archive.getnames()) == {f"{'a' * 64}.json", f"{store.diffs[0]}.tar", "manifest.json"}


def test_nobody_but_a_peer_is_given_an_image(store: Store) -> None:
    shared = share.Shared(["192.0.2.1"], Path(), "tandem/engine:1")
    with serving(partial(share._Handler, shared)) as url:
        with pytest.raises(OSError, match=r"without response|Connection"):
            with source(url).get("/image", told={"have": []}):
                pass
    assert store.chains
