"""A store with ten models as nodes have them: shared files of each kind, one that is broken, one that serves."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from operations.node.model import marks, proof
from operations.node.unit import disks, served, services

#: Commits of the models' revisions.
A, B = "a" * 40, "b" * 40
SERVING, CONFIG = "org/serving", b'{"model_type": "x"}'
KB = 1000


def shard(letter: str, size: int) -> bytes:
    """A safetensors file with one tensor."""
    header = json.dumps({letter: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + letter.encode() * size


class Node:
    """Its folders, as the programs are told of them; `Node.tree` is all that lies there."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.store = place, place / "hub"
        self.etc, self.kernels, self.proven = place / "etc", place / "cache", place / "proven"
        monkeypatch.setattr(proof, "PROVEN", self.proven)
        monkeypatch.setattr(disks, "SCRIPTS", self.etc)
        monkeypatch.setattr(disks, "KERNELS", self.kernels)
        monkeypatch.setattr(served, "PLACE", place / "served.json")
        monkeypatch.setattr(services, "unit_states", self._systemctl_double)
        monkeypatch.setattr(services, "_UNIT_FILES", place / "systemd")
        monkeypatch.setattr(disks, "own_containers", list)
        self.running = {"tandem-engine"}
        self._make()

    def _systemctl_double(self, units: list[str]) -> dict[str, dict[str, str]]:
        return {unit: {"ActiveState": "active" if unit in self.running else "inactive"} for unit in units}

    def add(self, repo: str, files: dict[str, bytes], revision: str = A, *, brought: bool = True) -> Path:
        """A whole revision, with its proof's place marked where Tandem has fetched it."""
        folder = self.store / f"models--{repo.replace('/', '--')}"
        snapshot = folder / "snapshots" / revision
        if brought:
            marks.put(folder.name, revision, marks.BROUGHT)
        snapshot.mkdir(parents=True)
        for each in ("blobs", "refs"):
            (folder / each).mkdir(exist_ok=True)
        (folder / "refs/main").write_text(revision)
        for name, content in files.items():
            blob = folder / "blobs" / hashlib.sha256(content).hexdigest()
            if not blob.exists():
                blob.write_bytes(content)
            (snapshot / name).symlink_to(f"../../blobs/{blob.name}")
        return snapshot

    def _make(self) -> None:
        weights = {"config.json": CONFIG}
        self.add("org/plain", {**weights, "model.safetensors": shard("p", 11 * KB)})
        two = {**weights, "model-1.safetensors": shard("t", 20 * KB)}
        self.add("org/two", {**two, "model-2.safetensors": shard("u", 3 * KB)})
        self.add("org/two", {**two, "model-2.safetensors": shard("v", 5 * KB)}, B)
        base = self.add("org/base", {**weights, "model.safetensors": shard("b", 40 * KB)})
        fine = self.add("org/fine", {**weights, "adapted.safetensors": shard("f", 7 * KB)})
        one = (base / "model.safetensors").resolve()
        os.link(one, self.store / "models--org--fine/blobs" / one.name)
        (fine / "model.safetensors").symlink_to(f"../../blobs/{one.name}")
        # As huggingface_hub 2 has it: a store for all models, whose names are other hashes.
        common = self.store / "blobs/cd" / ("cd" * 32)
        for repo in ("org/share-a", "org/share-b"):
            snapshot = self.add(repo, {**weights, "model.safetensors": shard("s", 30 * KB)})
            blob = (snapshot / "model.safetensors").resolve()
            common.parent.mkdir(parents=True, exist_ok=True)
            blob.rename(common)
            blob.symlink_to(f"../../blobs/cd/{common.name}")
        broken = self.add("org/broken", {**weights, "model.safetensors": shard("x", 13 * KB)[:-1]})
        (broken / "tokenizer.json").symlink_to("../../blobs/none")
        cut = self.store / "models--org--cut"
        (cut / "blobs").mkdir(parents=True)
        (cut / "blobs" / f"{'1' * 64}.incomplete").write_bytes(b"i" * 6 * KB)
        (cut / "blobs" / f"{'2' * 64}.part").write_bytes(b"j" * 2 * KB)
        marks.put(cut.name, A, marks.BROUGHT)
        self.add("org/owners", {**weights, "model.safetensors": shard("o", 17 * KB)}, brought=False)
        self.add(SERVING, {**weights, "model.safetensors": shard("y", 19 * KB)})
        script = self.etc / "engine/start.sh"
        script.parent.mkdir(parents=True)
        script.write_text(f"exec vllm serve /hub/models--org--serving/snapshots/{A} --port 8001\n")
        (self.etc / "engine/run.sh").write_text("exec docker run tandem/engine:0123456789ab /start.sh\n")
        for tag, size in (("0123456789ab", 9), ("ba9876543210", 4)):
            (self.kernels / tag / "torch").mkdir(parents=True)
            (self.kernels / tag / "torch/graph").write_bytes(b"k" * size * KB)

    def tree(self) -> dict[str, bytes | str]:
        """Path -> content, or where a link leads."""
        found: dict[str, bytes | str] = {}
        for place in (self.store, self.kernels, self.proven):
            for each in place.rglob("*"):
                if each.is_symlink():
                    found[str(each.relative_to(self.place))] = os.readlink(each)
                elif each.is_file():
                    found[str(each.relative_to(self.place))] = each.read_bytes()
        return found

    def used(self) -> int:
        """Bytes of all files in the store and of kernels, each once."""
        places = (self.store.glob("**/blobs"), self.store.glob("*/snapshots"), [self.kernels])
        files = [file for each in places for place in each for file in place.rglob("*") if file.is_file()]
        return sum({each.stat().st_ino: each.stat().st_size for each in files}.values())
