"""What an engine's start waits for, as the script that runs on the node says it."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from operations.node.model import proof as on_node
from operations.plan.config.files import render
from operations.plan.plan import Plan
from operations.plan.recipes.formats import load_recipe
from operations.plan.services.engine_service import RDMA_S
from tests.node import models
from tests.node.shipped import FILES, load
from tests.node.spaces import Space
from tests.plan.samples import engine_of, knobs, make_plan, nodes, plan
from tests.support import rdma_double

proof = load("engine/proof.py")


def waits(call: str, wait_s: float = 1.5) -> str:
    """What a script with the shared waiting functions says before it is ended; empty when it goes on at once."""
    script = render("waiting.sh.j2") + f"\nwait_while {call}\necho on >&2\n"
    process = subprocess.Popen(["sh", "-c", script], stderr=subprocess.PIPE, text=True)
    try:
        return process.communicate(timeout=wait_s)[1].removesuffix("on\n")
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1]


def test_an_address_is_waited_for() -> None:
    assert waits("no_address 127.0.0.1") == ""
    assert waits("no_address ::1") == ""
    assert "no interface has the address 192.0.2.9" in waits("no_address 192.0.2.9")


def test_a_port_is_waited_for_and_its_holder_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        said = waits(f"port_is_taken 127.0.0.1 {port}")
        assert f"port {port} is taken by" in said
        assert str(os.getpid()) in said
        # On another address it is in nobody's way.
        assert waits(f"port_is_taken 127.0.0.2 {port}") == ""
    assert waits(f"port_is_taken 127.0.0.1 {port}") == ""


def test_the_whole_script_is_good_sh() -> None:
    for file in engine_of(plan().head).files:
        if file.path.endswith(".sh"):
            subprocess.run(["sh", "-n"], input=file.content, text=True, check=True)


def tools(folder: Path, **scripts: str) -> dict[str, str]:
    """An environment whose PATH begins with these programs: stand-ins for what the real ones would say."""
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def asked(name: str, environment: dict[str, str], folder: Path = FILES) -> str:
    """What a function of the shipped script says; the script waits while it says something. `folder`: where it lies."""
    files = {file.path: file.content for file in engine_of(plan().head).files}
    ready = files["/etc/tandem/engine/ready.sh"]
    function = re.search(rf"^{name}.*?^}}$", ready, re.MULTILINE | re.DOTALL)
    assert function
    assert f"wait_while {name}" in ready
    argv = ["sh", "-euc", f"{function.group()}\n{name}", f"{folder}/ready.sh"]
    return subprocess.run(argv, capture_output=True, text=True, env=environment, check=True).stdout


def test_another_program_on_the_gpu_is_named(tmp_path: Path) -> None:
    shipped = {Path(file.path).name: file.content for file in engine_of(plan().head).files}
    (tmp_path / "on_gpu.py").write_text(shipped["on_gpu.py"])
    comfy = "another program computes on the GPU: comfyui (pid 4711000) with 20.0 GiB; end it: sudo kill 4711000\n"
    for said, answer in (("4711000, comfyui, 20480", comfy), ("4711001, /usr/bin/gnome-shell, 120", ""), ("", "")):
        # A stand-in for nvidia-smi: there is no GPU here.
        environment = tools(tmp_path, **{"nvidia-smi": f"printf '%s' '{said}'"})
        assert asked("gpu_is_taken", environment, tmp_path) == answer
    # Words on stdout and an exit status: no program has such a name.
    mismatch = "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18"
    told = asked("gpu_is_taken", tools(tmp_path, **{"nvidia-smi": mismatch}), tmp_path)
    assert "another program" not in told and told.endswith("its old module is still loaded; reboot it\n")


def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "containers").mkdir()
    for free_kib, said in ((51_300, ""), (51_100, f"the disk of {tmp_path}/containers is full (49 MiB free)")):
        environment = tools(tmp_path, docker=f"echo {tmp_path}", df=f"echo Avail; echo {free_kib}")
        assert said in asked("disk_is_full", environment)
        assert bool(said) == bool(asked("disk_is_full", environment))


@pytest.mark.parametrize(("restarts", "pause"), [(0, ""), (1, ""), (2, "15"), (3, "30"), (5, "120"), (9, "240")])
def test_starts_in_a_row_slow_down(tmp_path: Path, restarts: int, pause: str) -> None:
    shipped = (FILES / "engine/ready.sh.j2").read_text()
    part = re.search(r"^restarts=.*?^fi$", shipped, re.MULTILINE | re.DOTALL)
    assert part
    environment = tools(tmp_path, systemctl=f"echo {restarts}", sleep="echo slept $1")
    argv = ["sh", "-euc", part.group()]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == (f"slept {pause}\n" if pause else "")


def test_a_shard_that_was_written_to_since_it_was_proven_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_node, "PROVEN", tmp_path / "proven")
    snapshot = models.make_shards(tmp_path / "hub", 2, 1000)
    record = tmp_path / "proven" / snapshot.parents[1].name / f"{snapshot.name}.json"
    assert proof.changed(snapshot, record) == ""
    on_node.keep_proof(snapshot, on_node.manifest(snapshot))
    assert record.exists()
    assert proof.changed(snapshot, record) == ""
    shard = next(snapshot.glob("*.safetensors"))
    time.sleep(0.01)
    with shard.open("r+b") as file:
        file.seek(100)
        file.write(b"x")
    assert f"{shard} has been changed since it was proven" in proof.changed(snapshot, record)
    shard.unlink()
    assert f"{shard} is gone" in proof.changed(snapshot, record)
    # Another quant's file is no matter of this engine's.
    assert proof.changed(snapshot, record, ["*.json", "other*"]) == ""
    assert f"{shard} is gone" in proof.changed(snapshot, record, ["*.json", "*.safetensors"])


def test_an_engine_of_one_quant_is_held_against_its_own_files() -> None:
    def checks(of: Plan) -> list[list[str]]:
        ready = next(file.content for file in engine_of(of.head).files if file.path.endswith("ready.sh"))
        return [shlex.split(line) for line in ready.splitlines() if "proof.py" in line]

    (words,) = checks(plan(1, recipe="lab-tiny-gguf", topology="solo"))
    assert words[-2].endswith(".json") and words[-1:] == ["tiny-llama-F32.gguf"]
    assert all(words[-1].endswith(".json") for words in checks(plan()))


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces want root")
def test_a_rank_names_the_netdev_that_went_with_its_cable() -> None:
    files = {file.path: file.content for file in engine_of(plan(topology="cluster").head).files}
    ready = files["/etc/tandem/engine/ready.sh"]
    function = re.search(r"^rail_is_missing.*?^}$", ready, re.MULTILINE | re.DOTALL)
    call = "rail_is_missing enp1s0f0np0 192.168.177.11"
    assert function and f"wait_while {call}" in ready
    net = Space()
    try:
        say = net.argv("sh", "-euc", f"{function.group()}\n{call}")
        gone = "the interface enp1s0f0np0 is gone: plug the cable in at both ends\n"
        assert subprocess.check_output(say, text=True) == gone
        net.run("ip", "link", "add", "enp1s0f0np0", "type", "veth")
        named = "enp1s0f0np0 has not its address 192.168.177.11; `tandem apply` sets it\n"
        assert subprocess.check_output(say, text=True) == named
        net.address("enp1s0f0np0", "192.168.177.11/24")
        assert subprocess.check_output(say, text=True) == ""
    finally:
        net.close()


def test_a_rank_waits_a_minute_for_its_rdma_devices_and_then_starts_without(tmp_path: Path) -> None:
    planned = plan(topology="cluster").head
    ready = next(file.content for file in engine_of(planned).files if file.path.endswith("/ready.sh"))
    assert f"\nwait_for_rdma {' '.join(planned.node.rdma)}\n" in ready and len(planned.node.rdma) == 2
    functions = re.search(r"^rdma_lacks.*?^wait_for_rdma.*?^}$", ready, re.MULTILINE | re.DOTALL)
    assert functions and f'"$waited" -lt {RDMA_S} ]' in functions.group()
    own = rdma_double.reading(tmp_path, functions.group()).replace(f"-lt {RDMA_S}", "-lt 1")
    script = f"{render('waiting.sh.j2')}\n{own}\nset -eu\nwait_for_rdma rocep1s0f0 roceP2p1s0f0"
    rdma_double.add(tmp_path, "roceP2p1s0f0", 1)
    for is_there in (False, True):
        if is_there:
            rdma_double.add(tmp_path, "rocep1s0f0", 0, can_be_opened=False)
        said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stderr
        assert said == (
            "waiting (0 s so far): RDMA devices are not there: rocep1s0f0\n"
            "starts without RDMA devices that are not there: rocep1s0f0; tokens will be late, "
            "`tandem doctor` says what helps\n"
        )
    # The other node of a cable is off.
    rdma_double.add(tmp_path, "rocep1s0f0", 0, state="1: DOWN")
    assert subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stderr == ""


def test_devices_of_a_node_that_has_not_one_for_each_rail_are_all_waited_for() -> None:
    wanted = knobs(topology="cluster")
    lacking = [replace(each, rdma=each.rdma[1:]) for each in nodes(2, wanted)]
    engine = engine_of(make_plan(load_recipe(wanted.recipe), wanted, lacking).head)
    ready = next(file.content for file in engine.files if file.path.endswith("/ready.sh"))
    assert "\nwait_for_rdma roceP2p1s0f0\n" in ready


def test_a_container_gets_the_rdma_devices_that_are_there(tmp_path: Path) -> None:
    run = next(file.content for file in engine_of(plan(topology="cluster").head).files if file.path.endswith("/run.sh"))
    for there in (True, False):
        device = tmp_path if there else tmp_path / "gone"
        script = run.replace("/dev/infiniband", str(device)).replace("exec /usr/bin/docker", "echo")
        script = re.sub(r"^\(until .*$", "", script, flags=re.MULTILINE)
        said = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True).stdout
        assert said.startswith("run --device" if there else "run --rm --init --name tandem-engine ")


def test_ranks_that_meet_by_sockets_wait_for_no_rdma_device_and_get_none() -> None:
    recipe = load_recipe("nemotron-3-super-nvfp4-marlin")
    for turned_off in (True, False):
        env = {**recipe.env, **({"NCCL_IB_DISABLE": "1"} if turned_off else {})}
        wanted = knobs(topology="cluster")
        engine = engine_of(make_plan(recipe.model_copy(update={"env": env}), wanted, nodes(2, wanted)).head)
        files = {file.path: file.content for file in engine.files}
        assert ("wait_for_rdma" not in files["/etc/tandem/engine/ready.sh"]) == turned_off
        assert ("/dev/infiniband" not in files["/etc/tandem/engine/run.sh"]) == turned_off


@pytest.mark.parametrize("found", [True, False], ids=["it-says-what-it-found", "it-names-its-folders"])
def test_docker_is_asked_for_the_specification_wherever_it_lies(tmp_path: Path, found: bool) -> None:
    wanted = knobs(topology="solo")
    planned = make_plan(load_recipe(wanted.recipe), wanted, [replace(nodes(1, wanted)[0], cdi=True)])
    ready = next(file.content for file in engine_of(planned.head).files if file.path.endswith("ready.sh"))
    function = re.search(r"^gpu_is_not_specified.*?^}$", ready, re.MULTILINE | re.DOTALL)
    assert function
    specified = tmp_path / "own"
    specified.mkdir()
    # A stand-in for Docker, with a folder of the owner's.
    docker = f"""case "$3" in *json*) cat {tmp_path}/info ;; *) echo "{specified} " ;; esac"""
    environment = tools(tmp_path, docker=docker)

    def said() -> str:
        argv = ["sh", "-euc", f"{function.group()}\ngpu_is_not_specified"]
        return subprocess.run(argv, capture_output=True, text=True, env=environment, check=True).stdout

    (tmp_path / "info").write_text("{}\n")
    assert said().startswith(f"Docker finds no CDI specification of nvidia.com/gpu (in {specified} )")
    if found:
        (tmp_path / "info").write_text('{"DiscoveredDevices":[{"Source":"cdi","ID":"nvidia.com/gpu=all"}]}\n')
    else:
        (specified / "nvidia.yaml").write_text("kind: nvidia.com/gpu\n")
    assert said() == ""


def test_a_port_of_an_ipv6_address_is_waited_for() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as held:
        port = held.getsockname()[1]
        assert f"port {port} is taken by" in waits(f"port_is_taken ::1 {port}")
        assert waits(f"port_is_taken ::2 {port}") == ""


def test_a_command_that_fails_is_no_leave_to_go_on() -> None:
    """It may have written half of what the start reads."""
    waiting = render("waiting.sh.j2")
    for command, code, said in (("true", 0, "on\n"), ("false", 1, ""), ("no-such-command", 1, "")):
        argv = ["sh", "-euc", f"{waiting}\nwait_while {command}\necho on"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (code, said)
