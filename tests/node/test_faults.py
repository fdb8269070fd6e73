"""A hundred faults of a copy: none leaves a bad file under a good name, and the next run finishes.

The programs are the real ones, in processes of their own; places are drawn with fixed seeds.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from operations.node.model import proof
from operations.node.model.proof import content_hash
from tests.node.models import FOLDER, REVISION, make_shards
from tests.node.wire import Wire

SHARDS, SHARD_BYTES = 5, 900_000
TOTAL = SHARDS * SHARD_BYTES
SHARE, WIRE, WORKERS = 26950, 26951, 26960
LOOPBACK = ["127.0.0.1"]


def places(count: int) -> list[int]:
    """Bytes of a copy, the same in every run; the first and the last are among them."""
    drawn = random.Random(count)
    return [1, TOTAL - 1, *(drawn.randrange(TOTAL) for _ in range(count - 2))]


@dataclass
class World:
    """A head with a model, a worker's store, and a wire between them."""

    home: Path
    wire: Wire
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    share: subprocess.Popen[str] = field(init=False)

    @property
    def source(self) -> Path:
        return self.home / "source" / FOLDER / "snapshots" / REVISION

    @property
    def store(self) -> Path:
        return self.home / "store"

    @property
    def snapshot(self) -> Path:
        return self.store / FOLDER / "snapshots" / REVISION

    def program(self, name: str, proven: str = "proven", **arguments: Any) -> subprocess.Popen[str]:
        """A node program, held by its standard input."""
        code = (
            "import json; from pathlib import Path; from operations.node import beats\n"
            "from operations.node.copy import fetch, share\nfrom operations.node.model import proof\n"
            f"proof.PROVEN = Path({str(self.home / proven)!r})\n"
            f"print(json.dumps({name}.main(**{arguments!r})))"
        )
        argv = [sys.executable, "-c", code]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def share_out(self) -> None:
        """The head's server."""
        store = {"store": str(self.home / "source"), "folder": FOLDER, "revision": REVISION}
        self.share = self.program("share", "proven-head", addresses=LOOPBACK, port=SHARE, peers=LOOPBACK, **store)
        assert self.share.stdout and json.loads(self.share.stdout.readline()) == {"ready": True}

    def fetch(self) -> subprocess.Popen[str]:
        """A worker's copy, begun."""
        where = {"store": str(self.store), "folder": FOLDER, "revision": REVISION}
        return self.program("fetch", what="model", addresses=LOOPBACK, port=WIRE, **where)

    def copy(self) -> dict[str, Any]:
        """A worker's copy, to its end; what it says last."""
        return last(self.fetch())

    def settle(self) -> None:
        """What a fault left is clean; the next run ends with a whole model."""
        assert_clean(self.store)
        self.wire.heal()
        if self.share.poll() is not None:
            self.share_out()
        done = self.copy()
        assert done.get("done"), done
        assert_clean(self.store)
        for file in self.source.iterdir():
            assert (self.snapshot / file.name).read_bytes() == file.read_bytes()
        assert not list(self.store.rglob("*.part")) and not list(self.store.rglob("*.broken"))


def last(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The last line of a program; nothing when it was killed."""
    assert process.stdout
    lines = process.stdout.read().splitlines()
    process.wait(timeout=20)
    answer: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return answer


def assert_clean(store: Path) -> None:
    """Every file under a good name is good: blobs are what their names say, links lead to blobs."""
    for blob in store.glob(f"{FOLDER}/blobs/*"):
        if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", blob.name):
            assert content_hash(blob, git=len(blob.name) == 40) == blob.name
    for link in store.glob(f"{FOLDER}/snapshots/*/*"):
        aside = link.resolve().with_name(f"{link.resolve().name}.broken")
        assert link.resolve().is_file() or aside.is_file(), f"{link} dangles"


def assert_said(answer: dict[str, Any]) -> None:
    """It came, or one clear sentence says why not."""
    assert answer.get("done") or len(answer["error"]) > 10, answer
    assert "Traceback" not in str(answer)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    make_shards(tmp_path / "source", SHARDS, SHARD_BYTES)
    one = World(tmp_path, Wire(WIRE, SHARE))
    one.share_out()
    yield one
    one.wire.close()
    for process in one.processes:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()


@pytest.mark.parametrize("place", places(16))
def test_the_link_is_cut(world: World, place: int) -> None:
    world.wire.at_byte(place, world.wire.cut)
    answer = world.copy()
    assert_said(answer)
    assert "error" in answer
    world.settle()


@pytest.mark.parametrize("place", places(12))
def test_a_byte_is_flipped_on_the_way(world: World, place: int) -> None:
    world.wire.flip(place)
    assert_said(world.copy())
    world.settle()


@pytest.mark.parametrize("place", places(16))
def test_the_receiver_is_killed(world: World, place: int) -> None:
    process = world.fetch()
    world.wire.at_byte(place, process.kill)
    assert "done" not in last(process)
    world.settle()


@pytest.mark.parametrize("place", places(12))
def test_the_sender_is_killed(world: World, place: int) -> None:
    world.wire.at_byte(place, world.share.kill)
    assert_said(world.copy())
    world.settle()


@pytest.mark.parametrize("place", places(10))
def test_the_deploy_is_killed(world: World, place: int) -> None:
    """Its end of both tethers closes: neither program outlives it."""
    process = world.fetch()
    assert process.stdin and world.share.stdin

    def die() -> None:
        for held in (process, world.share):
            assert held.stdin
            held.stdin.close()

    world.wire.at_byte(place, die)
    process.wait(timeout=10)
    world.share.wait(timeout=10)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", SHARE), timeout=1)
    world.settle()


@pytest.mark.parametrize("seed", range(5))
def test_a_byte_is_flipped_on_the_source(world: World, seed: int) -> None:
    blob = (world.source / f"model-{seed}.safetensors").resolve()
    content = blob.read_bytes()
    at = random.Random(seed).randrange(len(content))
    blob.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    answer = world.copy()
    assert "another hash" in answer["error"]
    assert not (world.snapshot / f"model-{seed}.safetensors").exists()
    blob.write_bytes(content)
    world.settle()


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _remove(*files: Path) -> None:
    for file in files:
        file.unlink()


BETWEEN_RUNS: dict[str, Callable[[Path], object]] = {
    "flipped": lambda file: _flip(file.resolve()),
    "truncated": lambda file: os.truncate(file.resolve(), 1000),
    "emptied": lambda file: os.truncate(file.resolve(), 0),
    "grown": lambda file: file.resolve().write_bytes(file.read_bytes() + b"more"),
    "blob removed": lambda file: _remove(file.resolve()),
    "link removed": lambda file: _remove(file),
    "both removed": lambda file: _remove(file.resolve(), file),
}


@pytest.mark.parametrize("name", ["model-0.safetensors", "config.json"])
@pytest.mark.parametrize("what", BETWEEN_RUNS)
def test_a_file_of_the_worker_s_changes_between_runs(world: World, what: str, name: str) -> None:
    assert world.copy()["done"]
    size = (world.snapshot / name).stat().st_size
    BETWEEN_RUNS[what](world.snapshot / name)
    done = world.copy()
    assert done.get("done"), done
    assert done["bytes"] in (0, size), "that file alone is fetched again"
    world.settle()


@pytest.fixture
def small_disk(world: World) -> Iterator[Path]:
    """The worker's store on a file system of its own."""
    if os.geteuid():
        pytest.skip("mounting needs root")
    world.store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={TOTAL + 1_000_000}", "none", world.store], check=True)
    yield world.store
    subprocess.run(["umount", world.store], check=True)


def test_a_disk_that_is_too_full_is_said_before_the_first_byte(world: World, small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(2_000_000))
    answer = world.copy()
    assert "make room; nothing came" in answer["error"]
    assert not list(small_disk.rglob("*.part"))
    (small_disk / "filler").unlink()
    world.settle()


@pytest.mark.parametrize("place", places(6))
def test_a_disk_fills_up_on_the_way(world: World, small_disk: Path, place: int) -> None:
    def fill() -> None:
        with contextlib.suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass

    world.wire.at_byte(place, fill)
    answer = world.copy()
    assert_said(answer)
    (small_disk / "filler").unlink()
    world.settle()


def test_a_break_costs_only_what_was_in_flight(world: World) -> None:
    world.wire.at_byte(TOTAL * 3 // 4, world.wire.cut)
    assert "error" in world.copy()
    whole = len(list(world.snapshot.glob("*.safetensors")))
    assert whole
    world.wire.heal()
    assert world.copy()["bytes"] <= (SHARDS - whole) * SHARD_BYTES + 1000


class Workers:
    """Three workers that hand on to each other what they have."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.begun = [self._begin(number) for number in range(3)]

    def _begin(self, number: int) -> subprocess.Popen[str]:
        at = [{"addresses": LOOPBACK, "port": WORKERS + each, "part": each} for each in range(3)]
        return self.world.program(
            "fetch",
            f"proven-{number}",
            what="model",
            addresses=LOOPBACK,
            port=WIRE,
            store=str(self.world.home / f"store-{number}"),
            folder=FOLDER,
            revision=REVISION,
            here=at[number],
            peers=[each for each in at if each is not at[number]],
        )

    def results(self) -> list[dict[str, Any]]:
        """What each said last; they stay until all have said it."""
        answers = []
        for process in self.begun:
            assert process.stdout
            answer: dict[str, Any] = {}
            while not ("done" in answer or "error" in answer) and (line := process.stdout.readline()):
                answer = json.loads(line)
            answers.append(answer)
        for process in self.begun:
            assert process.stdin
            process.stdin.close()
            process.wait(timeout=10)
        return answers


def test_workers_take_from_each_other(world: World) -> None:
    assert all(answer.get("done") for answer in Workers(world).results())
    for number in range(3):
        store = world.home / f"store-{number}"
        assert_clean(store)
        proof.PROVEN = world.home / f"proven-{number}"
        assert proof.main(str(store), FOLDER, REVISION)["proven"]
    # From the head alone it would be three times as much.
    assert world.wire.passed < TOTAL * 2


@pytest.mark.parametrize("place", places(8))
def test_one_of_the_workers_is_killed(world: World, place: int) -> None:
    workers = Workers(world)
    world.wire.at_byte(place, workers.begun[place % 3].kill)
    answers = workers.results()
    assert [bool(answer.get("done")) for answer in answers].count(True) >= 2, answers
    for number in range(3):
        assert_clean(world.home / f"store-{number}")
    again = Workers(world)
    assert all(answer.get("done") for answer in again.results())


def test_a_worker_that_hands_on_rubbish_is_not_believed(world: World) -> None:
    """Its store was good when it was looked at, and is not any more."""
    ports = [{"addresses": LOOPBACK, "port": WORKERS + each, "part": each} for each in range(2)]
    bad = world.home / "store-bad"
    shutil.copytree(world.home / "source", bad, symlinks=True)
    for blob in bad.glob(f"{FOLDER}/blobs/*"):
        _flip(blob)
    liar = world.program(
        "share", addresses=LOOPBACK, port=WORKERS, peers=LOOPBACK, store=str(bad), folder=FOLDER, revision=REVISION
    )
    assert liar.stdout and json.loads(liar.stdout.readline())["ready"]
    where = {"store": str(world.store), "folder": FOLDER, "revision": REVISION}
    honest = world.program(
        "fetch", what="model", addresses=LOOPBACK, port=WIRE, here=ports[1], peers=ports[:1], **where
    )
    start, answer = time.monotonic(), {}
    assert honest.stdout
    while not ("done" in answer or "error" in answer):
        answer = json.loads(honest.stdout.readline())
    assert answer.get("done"), answer
    assert time.monotonic() - start < 30
    world.settle()
