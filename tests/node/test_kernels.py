"""What engines have compiled, from node to node: the real share and fetch over loopback, and what breaks them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from operations.node.copy import fetch
from operations.node.image.content_id import content_id
from operations.node.kernels import compiled, kept
from operations.wire.kernels import Made
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
    compiled.begin(here, made)
    return here


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a node with which a start has served; the programs here look there."""
    monkeypatch.setattr(compiled, "CACHE", tmp_path / "source")
    monkeypatch.setattr(kept, "SCRIPTS", tmp_path / "scripts")
    compile_at(tmp_path / "source")
    kept.keep({PLACE: PATHS})
    return tmp_path / "source"


@contextmanager
def shared(cache: Path, made: Made) -> Iterator[None]:
    """The other node: the share program in a process of its own, held by its standard input."""
    wanted: dict[str, Any] = {"addresses": ["127.0.0.1"], "port": PORT, "peers": ["127.0.0.1"], "store": "/nowhere"}
    wanted |= {"kernels": PLACE, "made": made}
    program = f"""
import json
from pathlib import Path
from operations.node.kernels import compiled
compiled.CACHE = Path({str(cache)!r})
from operations.node.copy import share
print(json.dumps(share.main(**{wanted!r})))
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdin is not None
    assert json.loads(process.stdout.readline()) == {"ready": True}
    yield
    process.stdin.close()
    assert process.wait(timeout=5) == 0


def take(source: Path, to: Path, monkeypatch: pytest.MonkeyPatch, made: Made = MADE) -> Any:
    with shared(source, made):
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
    assert take(source, tmp_path / "to", monkeypatch)["done"] and not (tmp_path / "to").exists()


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
    assert take(source, tmp_path / "to", monkeypatch)["done"]
    assert own.read_text() == "its own" and names(tmp_path / "to" / PLACE) == {GRAPH, KERNEL}


def test_a_copy_that_breaks_off_leaves_nothing(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source / PLACE / KERNEL).chmod(0)
    monkeypatch.setattr(kept, "part_of", lambda place: tmp_path / "part")
    with shared(source, MADE):
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
    assert (source / OTHER / "vllm/torch_compile_cache/link").is_symlink(), "a link, and nothing of where it leads"
    # Nor is anything written through one.
    to = tmp_path / "to" / PLACE
    to.mkdir(parents=True)
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


def test_another_plan_begins_with_kernels_that_say_all_by_their_names(source: Path) -> None:
    assert kept.begin_with(OTHER, MADE, ["flashinfer"])
    assert names(source / OTHER) == {KERNEL, "flashinfer/0.7.0/121a/norm.lock"}
    assert (source / OTHER / KERNEL).stat().st_mtime_ns == (source / PLACE / KERNEL).stat().st_mtime_ns
    assert not compiled.is_proven(source / OTHER), "no start has served with them"
    assert not kept.begin_with(OTHER, MADE, ["flashinfer"]), "once"
    assert not kept.begin_with("aaaaaaaaaaaa/dddddddddddd", {**MADE, "content": "d" * 64}, ["flashinfer"])


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


def test_a_list_that_somebody_has_broken_is_none(source: Path) -> None:
    (source / f"{PLACE}.files.json").write_text('{"a": {"size": 1}}')
    assert kept.offered(PLACE, MADE) == {}
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


def test_a_start_notes_for_what_it_compiles_and_never_ends_by_it(
    tmp_path: Path,
) -> None:
    """As ready.sh runs it; Docker is a double that has one image."""
    folder, cache = tmp_path / "engine", tmp_path / "cache"
    folder.mkdir()
    for name in ("kernels/compiled.py", "image/content_id.py"):
        shutil.copy(NODE / name, folder)
    shutil.copy(FILES / "engine/made_for.py", folder)
    landed = folder / "compiled.py"
    landed.write_text(landed.read_text().replace("/var/lib/tandem/cache", str(cache)))
    docker = tmp_path / "docker"
    image = {"Config": {"Env": ["A=1"]}, "RootFS": {"Layers": ["sha256:1"]}, "Architecture": "arm64"}
    docker.write_text(f"#!/bin/sh\n[ \"$3\" != gone ] || exit 1\ncat <<'E'\n{json.dumps([image])}\nE\n")
    docker.chmod(0o755)

    def start(name: str) -> str:
        argv = [sys.executable, str(folder / "made_for.py"), PLACE, name, "cpu"]
        env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        return subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stderr

    assert start("tandem/engine:1") == ""
    made = {"content": content_id(image), "processor": compiled.processor(gpu=False)}
    assert compiled.read(cache / PLACE) == made
    (cache / PLACE / "triton").mkdir(parents=True)
    assert start("tandem/engine:1") == "" and (cache / PLACE).exists()
    docker.write_text(docker.read_text().replace("A=1", "A=2"))
    assert "tandem: kernels are compiled anew: this is another image" in start("tandem/engine:1")
    assert not (cache / PLACE).exists()
    assert "nobody knows what its kernels were compiled for" in start("gone")
