"""What engines have compiled, from node to node: the real share and fetch over loopback, and what breaks them."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from operations.node.copy import fetch
from operations.node.copy.kernels import receive
from operations.node.copy.swarm import STREAMS
from operations.node.image.content_id import content_id
from operations.node.kernels import compiled, kept
from operations.wire.kernels import Made
from tests.node.models import shared
from tests.node.shipped import FILES

NODE = FILES.parent / "operations/node"
PORT = 26983
PLACE = "aaaaaaaaaaaa/bbbbbbbbbbbb"
OTHER = "aaaaaaaaaaaa/cccccccccccc"
MADE: Made = {"content": "c" * 64, "processor": "NVIDIA GB10 0x2e12, driver 580.95.05"}
PATHS = ["vllm/torch_compile_cache", "flashinfer"]
GRAPH, KERNEL = "vllm/torch_compile_cache/0a1b/rank_0_0/graph.py", "flashinfer/0.7.0/121a/norm.so"


def compile_at(cache: Path, place: str = PLACE, made: Made = MADE) -> Path:
    """What an engine leaves in a folder of its own, as ready.sh and the engine make it."""
    here = cache / place
    compiled.begin(here, made)
    for name, content in {
        GRAPH: "graph",
        KERNEL: "kernel" * 50_000,
        "flashinfer/0.7.0/121a/norm.lock": "",
        "huggingface/token": "secret",
        "vllm/flashinfer_autotune_cache/0.json": "{}",
    }.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(content)
    (here / KERNEL).chmod(0o755)
    os.utime(here / KERNEL, ns=(1, 1_700_000_000_123_456_789))
    return here


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a node with which a start has served; the programs here look there."""
    monkeypatch.setattr(compiled, "CACHE", tmp_path / "source")
    monkeypatch.setattr(kept, "SCRIPTS", tmp_path / "scripts")
    compile_at(tmp_path / "source")
    kept.keep({PLACE: PATHS})
    return tmp_path / "source"


def other_node(source: Path, made: Made) -> AbstractContextManager[None]:
    before = (
        f"import pathlib\nfrom operations.node.kernels import compiled as at\nat.CACHE = pathlib.Path({str(source)!r})"
    )
    return shared(PORT, "/nowhere", before, kernels=PLACE, made=made)


def take(source: Path, to: Path, monkeypatch: pytest.MonkeyPatch, made: Made = MADE) -> Any:
    with other_node(source, made):
        monkeypatch.setattr(compiled, "CACHE", to)
        return fetch.main("kernels", ["127.0.0.1"], PORT, "/nowhere", kernels=PLACE, made=made)


def names(place: Path) -> set[str]:
    return {str(each.relative_to(place)) for each in place.rglob("*") if each.is_file()}


def test_a_node_has_what_another_has_compiled_as_it_was_and_nothing_else(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = tmp_path / "to"
    assert take(source, to, monkeypatch)["done"]
    assert names(to / PLACE) == {GRAPH, KERNEL}, "no token, no file that ranks must have alike, nobody's lock"
    there, here = (source / PLACE / KERNEL).stat(), (to / PLACE / KERNEL).stat()
    assert (here.st_mtime_ns, here.st_mode) == (there.st_mtime_ns, there.st_mode), "ninja builds anew what is newer"
    # From there it can be handed on at once, and its start finds it made for what it is.
    assert kept.offered(PLACE, MADE).keys() == {GRAPH, KERNEL}
    assert kept.state()["kept"] == {PLACE: {"made": MADE, "proven": True}}
    assert compiled.begin(to / PLACE, MADE) == "" and names(to / PLACE) == {GRAPH, KERNEL}


@pytest.mark.parametrize("other", [{"content": "d" * 64}, {"processor": "NVIDIA GB10 0x2e12, driver 590.44.01"}])
def test_kernels_of_another_image_or_processor_are_not_taken(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, str]
) -> None:
    made: Made = {**MADE, **other}  # type: ignore[typeddict-item]
    assert "for this image and processor" in take(source, tmp_path / "to", monkeypatch, made)["error"]
    assert not (tmp_path / "to").exists()


def test_an_engine_that_compiles_nothing_hands_on_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(source / PLACE)
    (source / PLACE).mkdir()
    compiled.put(source / PLACE, MADE)
    kept.keep({PLACE: PATHS})
    assert take(source, tmp_path / "to", monkeypatch)["done"] and not names(tmp_path / "to" / PLACE)
    assert kept.state()["kept"] == {PLACE: {"made": MADE, "proven": True}}, "the next deploy asks no more"


def test_a_broken_file_is_found_and_all_of_it_left_out(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip(source / PLACE / KERNEL)
    answer = take(source, tmp_path / "to", monkeypatch)
    assert f"{KERNEL} is not what it was" in answer["error"]
    assert not list((tmp_path / "to").rglob("*.so")) and not (tmp_path / "to" / PLACE).exists()
    # Nor does the next list take it for good, and there its entry goes.
    monkeypatch.setattr(compiled, "CACHE", source)
    kept.keep({PLACE: PATHS})
    assert kept.mend(PLACE, PATHS) == ["flashinfer/0.7.0"]
    assert kept.offered(PLACE, MADE).keys() == {GRAPH} and not (source / PLACE / KERNEL).exists()
    assert kept.mend(PLACE, PATHS) == []


def flip(file: Path) -> None:
    """As a disk does it: another byte, and the same time."""
    before, content = file.stat(), bytearray(file.read_bytes())
    content[1000] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_what_was_written_to_since_is_not_handed_on(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / PLACE / GRAPH).write_text("half of ano")
    assert take(source, tmp_path / "to", monkeypatch)["done"]
    assert names(tmp_path / "to" / PLACE) == {KERNEL}


def test_what_a_node_has_compiled_itself_stays(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "to" / PLACE / GRAPH
    own.parent.mkdir(parents=True)
    own.write_text("its own")
    compiled.put(tmp_path / "to" / PLACE, MADE)
    assert take(source, tmp_path / "to", monkeypatch)["done"]
    assert own.read_text() == "its own" and names(tmp_path / "to" / PLACE) == {GRAPH, KERNEL}


def test_a_copy_that_breaks_off_leaves_nothing(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source / PLACE / KERNEL).chmod(0)
    monkeypatch.setattr(kept, "part_of", lambda place: tmp_path / "part")
    with other_node(source, MADE):
        # The list is read; then the files are gone.
        shutil.rmtree(source / PLACE / "flashinfer")
        monkeypatch.setattr(compiled, "CACHE", tmp_path / "to")
        answer = fetch.main("kernels", ["127.0.0.1"], PORT, "/nowhere", kernels=PLACE, made=MADE)
    assert answer["error"] and not (tmp_path / "to").exists() and not (tmp_path / "part").exists()


def test_links_of_a_container_lead_nowhere(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "etc"
    secret.mkdir()
    (secret / "shadow").write_text("root")
    shutil.rmtree(source / PLACE / "flashinfer")
    (source / PLACE / "flashinfer").symlink_to(secret)
    (source / PLACE / "vllm/torch_compile_cache/link").symlink_to(secret / "shadow")
    kept.keep({PLACE: PATHS})
    assert kept.offered(PLACE, MADE).keys() == {GRAPH}
    assert kept.begin_with(OTHER, MADE, PATHS) and not (source / OTHER / "flashinfer").exists()
    assert names(source / OTHER) == {GRAPH} and not list((source / OTHER).rglob("link"))
    # Nor is anything written through one.
    to = tmp_path / "to" / PLACE
    to.mkdir(parents=True)
    compiled.put(to, MADE)
    (to / "vllm").symlink_to(secret)
    assert take(source, tmp_path / "to", monkeypatch)["done"]
    assert {each.name for each in secret.iterdir()} == {"shadow"}


def test_a_start_drops_what_was_compiled_for_another_processor_or_image(source: Path) -> None:
    place = source / PLACE
    assert compiled.begin(place, MADE) == "" and names(place)
    newer: Made = {**MADE, "processor": "NVIDIA GB10 0x2e12, driver 590.44.01"}
    said = compiled.begin(place, newer)
    assert "driver 590.44.01, and it was NVIDIA GB10 0x2e12, driver 580.95.05" in said
    assert not place.exists() and kept.offered(PLACE, newer) == {} and kept.offered(PLACE, MADE) == {}
    compile_at(source, made=newer)
    assert "another image" in compiled.begin(place, {**newer, "content": "d" * 64}) and not place.exists()


def test_a_start_drops_what_nobody_knows_for_what_it_was_compiled(source: Path) -> None:
    """As Docker makes the folder where a start could note nothing, and the engine compiles into it."""
    place = source / PLACE
    for record in (None, "["):
        compile_at(source)
        note = source / f"{PLACE}.json"
        note.unlink() if record is None else note.write_text(record)
        assert "nobody knows for what they were compiled" in compiled.begin(place, MADE)
        assert not place.exists() and compiled.read(place) == MADE


def test_a_driver_that_does_not_tell_the_gpu_has_the_image_s_content_compared_all_the_same(source: Path) -> None:
    place, unknown = source / PLACE, Made(content=MADE["content"], processor="")
    assert compiled.begin(place, unknown) == "" and names(place) and compiled.read(place) == MADE
    assert "another image" in compiled.begin(place, {**unknown, "content": "d" * 64}) and not place.exists()
    # What is compiled meanwhile stays as long as nobody tells more, and goes for the first one who does.
    compile_at(source, made=unknown)
    assert compiled.begin(place, unknown) == "" and names(place)
    assert "and it was an unknown one" in compiled.begin(place, MADE) and not place.exists()


def test_another_plan_begins_with_kernels_that_say_all_by_their_names(source: Path) -> None:
    assert kept.begin_with(OTHER, MADE, ["flashinfer"])
    assert names(source / OTHER) == {KERNEL}
    assert (source / OTHER / KERNEL).stat().st_mtime_ns == (source / PLACE / KERNEL).stat().st_mtime_ns
    assert not compiled.is_proven(source / OTHER), "no start has served with them"
    assert not kept.begin_with(OTHER, MADE, ["flashinfer"]), "once"
    assert not kept.begin_with("aaaaaaaaaaaa/dddddddddddd", {**MADE, "content": "d" * 64}, ["flashinfer"])


def test_another_plan_begins_with_nothing_that_a_power_cut_has_cut_off(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What no start has served with may be cut off, and is what was used last.
    unproven = compile_at(source, "aaaaaaaaaaaa/dddddddddddd")
    (unproven / "flashinfer/0.7.0/121a/other.so").write_text("")
    os.utime(f"{unproven}.json", (2e9, 2e9))
    # So may be what was compiled since the list was made, and a file of the list.
    (source / PLACE / "flashinfer/0.7.0/121a/newer.so").write_text("")
    (source / PLACE / "flashinfer/0.7.0/121a/whole.so").write_text("whole")
    kept.keep({PLACE: PATHS})
    (source / PLACE / KERNEL).write_text("")
    (source / PLACE / "flashinfer/0.7.0/121a/since.so").write_text("")
    synced: list[bool] = []
    monkeypatch.setattr(os, "sync", lambda: synced.append((source / OTHER).exists()))
    assert kept.begin_with(OTHER, MADE, ["flashinfer"])
    assert {Path(name).name for name in names(source / OTHER)} == {"newer.so", "whole.so"}
    assert synced == [False], "a name on the disk before its content is cut off by the next power cut"
    shutil.rmtree(source / PLACE)
    assert not kept.begin_with("aaaaaaaaaaaa/eeeeeeeeeeee", MADE, ["flashinfer"]), "nothing proven is left"


def test_the_oldest_go_when_there_are_too_many_and_never_the_plans(source: Path, tmp_path: Path) -> None:
    size = sum((source / PLACE / name).stat().st_size for name in names(source / PLACE))
    places = [PLACE, OTHER, "aaaaaaaaaaaa/dddddddddddd", "eeeeeeeeeeee/ffffffffffff"]
    for age, place in enumerate(places):
        compile_at(source, place)
        os.utime(source / f"{place}.json", (age + 1, age + 1))
    # The oldest one is what a unit here starts with; the second oldest is what is said.
    script = tmp_path / "scripts/fallback/run.sh"
    script.parent.mkdir(parents=True)
    script.write_text(f"docker run --volume /var/lib/tandem/cache/{PLACE}:/root/.cache x\n")
    assert kept.make_room({OTHER, *kept._named()}, 2 * size + 1) == places[2:]
    assert names(source / PLACE) and names(source / OTHER)
    assert kept.make_room({OTHER, *kept._named()}, 1) == [], "what the plan starts with stays, whatever it takes"
    assert not (source / "aaaaaaaaaaaa/dddddddddddd.json").exists()


def test_a_list_that_somebody_has_broken_is_none(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source / f"{PLACE}.files.json").write_text('{"a": {"size": 1}}')
    assert kept.state()["kept"][PLACE]["proven"]
    assert "it has none" in take(source, tmp_path / "to", monkeypatch)["error"]
    monkeypatch.setattr(compiled, "CACHE", source)
    assert kept.offered(PLACE, MADE) == {} and not kept.state()["kept"][PLACE]["proven"], "the next start lists anew"
    (source / f"{PLACE}.json").write_text("[")
    assert kept.state()["kept"] == {}


def test_processors_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "PROC", tmp_path / "proc")
    monkeypatch.setattr(compiled, "PCI", tmp_path / "pci")
    assert compiled.processor(gpu=True) == "", "without a driver nobody knows"
    gpu = tmp_path / "proc/driver/nvidia/gpus/000f:01:00.0"
    gpu.mkdir(parents=True)
    (gpu / "information").write_text("Model: \t\t NVIDIA GB10\nIRQ:   \t\t 123\n")
    (tmp_path / "pci/000f:01:00.0").mkdir(parents=True)
    (tmp_path / "pci/000f:01:00.0/device").write_text("0x2e12\n")
    version = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build\n"
    (tmp_path / "proc/driver/nvidia/version").write_text(version)
    assert compiled.processor(gpu=True) == MADE["processor"]
    (gpu / "information").write_text("Model: \t\t Unknown\n")
    assert compiled.processor(gpu=True) == "", "a driver that has not begun yet is no other GPU"
    flags = "model name\t: A\nflags\t\t: sse avx512f\ncpu MHz\t\t: 2000.1\n"
    (tmp_path / "proc/cpuinfo").write_text(flags)
    wide = compiled.processor(gpu=False)
    (tmp_path / "proc/cpuinfo").write_text(flags.replace("2000.1", "2100.7"))
    assert compiled.processor(gpu=False) == wide
    (tmp_path / "proc/cpuinfo").write_text(flags.replace(" avx512f", ""))
    assert compiled.processor(gpu=False) != wide


IMAGE = {"Config": {"Env": ["A=1"]}, "RootFS": {"Layers": ["sha256:1"]}, "Architecture": "arm64"}


def start(home: Path, name: str = "tandem/engine:1", restarts: int = 0, kind: str = "cpu") -> str:
    """What made_for.py says, as ready.sh runs it; Docker is a double that has one image."""
    if not (folder := home / "engine").exists():
        folder.mkdir()
        for file in (NODE / "kernels/compiled.py", NODE / "image/content_id.py", FILES / "engine/made_for.py"):
            shutil.copy(file, folder)
        landed = folder / "compiled.py"
        landed.write_text(landed.read_text().replace("/var/lib/tandem/cache", f"{home}/cache"))
        docker = home / "docker"
        docker.write_text(f"#!/bin/sh\n[ \"$3\" != gone ] || exit 1\ncat <<'E'\n{json.dumps([IMAGE])}\nE\n")
        docker.chmod(0o755)
    argv = [sys.executable, "-B", str(folder / "made_for.py"), PLACE, name, kind, str(restarts)]
    env = {**os.environ, "PATH": f"{home}:{os.environ['PATH']}"}
    return subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stderr


def test_a_start_notes_for_what_it_compiles_and_never_ends_by_it(tmp_path: Path) -> None:
    cache, landed, docker = tmp_path / "cache", tmp_path / "engine/compiled.py", tmp_path / "docker"
    assert start(tmp_path) == ""
    made = {"content": content_id(IMAGE), "processor": compiled.processor(gpu=False)}
    assert compiled.read(cache / PLACE) == made
    (cache / PLACE / "triton").mkdir(parents=True)
    assert start(tmp_path) == "" and (cache / PLACE).exists()
    # Byte code goes where a start did not serve with it, or where the disk would cut it off.
    code = cache / PLACE / "pycache/engine.pyc"
    for words, restarts, least in (("", 1, ""), ("restart 2 in a row", 2, ""), ("nearly full", 0, "1 << 60")):
        code.parent.mkdir(exist_ok=True)
        code.touch()
        landed.write_text(landed.read_text().replace("2 << 30", least or "2 << 30"))
        said = start(tmp_path, restarts=restarts)
        assert code.exists() is not bool(words) and (words in said if words else not said)
    assert (cache / PLACE / "triton").exists()
    docker.write_text(docker.read_text().replace("A=1", "A=2"))
    assert "tandem: kernels are compiled anew: this is another image" in start(tmp_path)
    assert not (cache / PLACE).exists()
    (cache / PLACE).symlink_to("/")
    assert "nobody knows what its kernels were compiled for" in start(tmp_path, "gone")
    assert not (cache / PLACE).is_symlink(), "it would be mounted"


def test_a_start_whose_driver_does_not_tell_the_gpu_looks_at_the_image_all_the_same(tmp_path: Path) -> None:
    assert start(tmp_path) == ""
    landed, docker, place = tmp_path / "engine/compiled.py", tmp_path / "docker", tmp_path / "cache" / PLACE
    landed.write_text(landed.read_text().replace("driver/nvidia", "driver/of nobody"))
    place.mkdir()
    assert start(tmp_path, kind="gpu") == "" and place.exists()
    docker.write_text(docker.read_text().replace("A=1", "A=2"))
    assert "this is another image" in start(tmp_path, kind="gpu") and not place.exists()


@pytest.mark.parametrize("restarts", [2, 3, 4])
def test_kernels_that_a_power_cut_has_cut_off_go_after_some_starts_in_a_row(
    source: Path, tmp_path: Path, restarts: int
) -> None:
    assert start(tmp_path) == ""
    cache = tmp_path / "cache"
    compile_at(cache, made=compiled.read(cache / PLACE) or MADE)
    whole, secret = "flashinfer/0.6.0/121a/norm.so", tmp_path / "etc"
    for name in (whole, "triton/0a/x.cubin", "flashinfer/whole.json"):
        (cache / PLACE / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / PLACE / name).write_text("whole")
    (cache / PLACE / "vllm/torch_compile_cache/__init__.py").touch()
    listed = [*PATHS, "triton"]
    compiled.put_files(cache / PLACE, kept._listed(cache / PLACE, listed, {}))
    before = names(cache / PLACE)
    assert start(tmp_path, restarts=restarts) == "" and names(cache / PLACE) == before, "what is proven and whole stays"
    # Half of one, all of another, and one that was compiled since; a link leads to what is the node's.
    (cache / PLACE / KERNEL).write_text("half")
    for name in ("flashinfer/whole.json", "triton/0b/y.cubin", "huggingface/login"):
        (cache / PLACE / name).parent.mkdir(exist_ok=True)
        (cache / PLACE / name).write_text("")
    secret.mkdir()
    (secret / "empty").touch()
    (cache / PLACE / "triton/link").symlink_to(secret)
    # Logs and indexes grow.
    with (cache / PLACE / "triton/0a/x.cubin").open("a") as log:
        log.write("more")
    said = start(tmp_path, restarts=restarts)
    if restarts != 3:
        # Once: what is compiled anew at the third is not to blame.
        assert not said and names(cache / PLACE) > before
        return
    assert "were cut off are compiled anew: flashinfer/0.7.0/121a, flashinfer/whole.json, triton/0b" in said
    assert not any("norm.so" in each and "0.7.0" in each for each in compiled.files(cache / PLACE) or {})
    gone = {each for each in before if each.startswith(("flashinfer/0.7.0", "flashinfer/whole"))}
    assert names(cache / PLACE) == {*before, "huggingface/login"} - gone and whole in before - gone
    assert (secret / "empty").exists() and compiled.is_proven(cache / PLACE)


@pytest.mark.parametrize("restarts", [2, 3])
def test_kernels_with_which_no_start_has_served_go_after_some_starts_in_a_row(tmp_path: Path, restarts: int) -> None:
    assert start(tmp_path) == ""
    place = tmp_path / "cache" / PLACE
    made = compiled.read(place)
    compile_at(tmp_path / "cache", made=made or MADE)
    said = start(tmp_path, restarts=restarts)
    assert place.exists() is (restarts < 3) and ("no start has served with them" in said) is (restarts >= 3)
    assert compiled.read(place) == made, "the start that follows compiles for the same"


class SilentSource:
    """A double of a node that has lost its power behind its list: each file times out, and is counted."""

    def __init__(self, files: int) -> None:
        entry = {"size": 1, "written": 1, "mode": 0o644, "sha256": "0"}
        self.list = json.dumps({"made": MADE, "files": {f"flashinfer/{each}": entry for each in range(files)}})
        self.asked = 0

    @contextmanager
    def get(self, path: str, rail: int = 0) -> Iterator[Any]:
        if path != "/kernels":
            self.asked += 1
            time.sleep(0.05)
            raise OSError("timed out")
        yield io.BytesIO(self.list.encode())


def test_a_source_without_power_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "CACHE", tmp_path)
    silent = SilentSource(400)
    with pytest.raises(OSError, match="timed out"):
        receive(silent, PLACE, MADE)  # type: ignore[arg-type]
    assert silent.asked <= 4 * STREAMS, "what is queued is not tried"
    assert not (tmp_path / PLACE).exists()


def test_nothing_is_put_beside_what_was_compiled_for_something_else(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older: Made = {**MADE, "processor": "NVIDIA GB10 0x2e12, driver 570.1"}
    here = compile_at(tmp_path / "to", made=older)
    before = names(here)
    told = take(source, tmp_path / "to", monkeypatch)
    said = "what lies here was compiled for something else, or nobody knows: the next start clears it"
    assert told["error"] == said and compiled.read(here) == older and names(here) == before
    # Nor beside what nobody knows of.
    (here.parent / f"{here.name}.json").unlink()
    monkeypatch.setattr(compiled, "CACHE", source)
    assert take(source, tmp_path / "to", monkeypatch)["error"] == said and names(here) == before
    # A link of before is no folder: nothing is written where it leads.
    shutil.rmtree(here)
    (tmp_path / "etc").mkdir()
    here.symlink_to(tmp_path / "etc")
    monkeypatch.setattr(compiled, "CACHE", source)
    assert compiled.places(here.parent) == []
    assert take(source, tmp_path / "to", monkeypatch)["done"]
    assert not here.is_symlink() and names(here) == {GRAPH, KERNEL} and not list((tmp_path / "etc").iterdir())


def test_no_file_that_is_handed_on_runs_as_somebody_else(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / PLACE / KERNEL).chmod(0o4755)
    kept.keep({PLACE: PATHS})
    listed = compiled.files(source / PLACE)
    assert listed
    compiled.put_files(source / PLACE, {**listed, KERNEL: {**listed[KERNEL], "mode": 0o4755}})
    assert take(source, tmp_path / "to", monkeypatch)["done"]
    assert (tmp_path / "to" / PLACE / KERNEL).stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("breaks", ["rename", "unlink", "rmtree"])
def test_a_removal_that_is_broken_off_leaves_nothing_under_a_new_name(
    source: Path, monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    place, newer = source / PLACE, Made(content="d" * 64, processor=MADE["processor"])

    def power_cut(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shutil if breaks == "rmtree" else Path, breaks, power_cut)
        compiled.begin(place, newer)
    assert place.exists() is (breaks == "rename") and (not place.exists() or compiled.read(place) == MADE)
    compiled.begin(place, newer)
    assert not place.exists() and not list(place.parent.glob(".gone-*")) and compiled.read(place) == newer
    place.mkdir()
    assert not compiled.is_proven(place), "the list was of what has gone"


def test_a_removal_passes_what_an_earlier_one_has_left(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = source / PLACE
    (place.with_name(f".gone-{place.name}") / "held").mkdir(parents=True)
    # As a file that can't be removed.
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    compiled.drop(place)
    assert not place.exists() and compiled.read(place) is None


def test_kernels_of_another_plan_that_cannot_be_had_are_left(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("operations.node.disk_space.shutil.disk_usage", lambda _: usual._replace(free=1000))
        assert not kept.begin_with(OTHER, MADE, ["flashinfer"])
    with monkeypatch.context() as patch:
        # A disk that is full after all, in the midst of it.
        patch.setattr(shutil, "copy2", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        assert not kept.begin_with(OTHER, MADE, ["flashinfer"])
    assert not list(source.glob(f"{OTHER}*")), "nothing of it is left"
    # A socket of an engine that runs, and a file that it takes away meanwhile, are in nobody's way.
    with socket.socket(socket.AF_UNIX) as server, monkeypatch.context() as patch:
        patch.chdir(source / PLACE / "flashinfer")
        server.bind("s")
        listed = kept.offered(PLACE, MADE)
        vanished = {"flashinfer/vanished": listed[KERNEL]}
        patch.setattr(kept, "offered", lambda *_: {**listed, **vanished})
        assert kept.begin_with(OTHER, MADE, ["flashinfer"])
    assert names(source / OTHER) == {KERNEL} and compiled.read(source / OTHER) == MADE
