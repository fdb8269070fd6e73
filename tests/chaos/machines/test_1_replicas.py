"""Replicas on two virtual machines: what a deploy makes of them, and faults under clients that count."""

from __future__ import annotations

import re
import time
from functools import partial

import pytest

from operations.paths import ARP, ENGINE, PROXY, SLICE, run_folder
from tests.chaos.fault import Fault
from tests.chaos.machines import page
from tests.chaos.machines.deployed import SILENT_S, assert_shut, deployed_again, happens
from tests.chaos.machines.faults import RAILS
from tests.chaos.machines.scene import REPLICAS, Machines
from tests.lab import cluster, desk, guarding
from tests.lab.cluster import HEAD, WORKER, doctor, on
from tests.lab.qemu import accelerator, command
from tests.lab.qemu.units import RDMA
from tests.lab.scan import open_ports
from tests.lab.settings import LINKS
from tests.support.waiting import until

# A deploy takes a quarter of an hour where it is emulated.
pytestmark = [pytest.mark.lab, pytest.mark.machines, pytest.mark.timeout(3 * 3600)]
TOPOLOGY = REPLICAS
#: Of the worker's first rail.
DEVICE = RDMA["rail0"]
#: A plan whose ranks want RDMA: what is deployed uses none.
WANTS_RDMA = "topology=cluster recipe=gpt-oss-120b-mxfp4"
#: Ports of nobody's, for a program in the engine's control group and for one beside it.
INSIDE, BESIDE = 9901, 9902
PATIENCE_S = 300.0


def test_both_nodes_serve_confined_on_cgroup_v2_alone(scene: Machines) -> None:
    arch = scene.variant
    assert cluster.containers(HEAD) == cluster.containers(WORKER) == cluster.SERVING
    kernel = on(WORKER, "uname -rm").strip()
    assert kernel.endswith(desk.cpu(arch))
    image = f"$(docker inspect --format '{{{{.Image}}}}' {PROXY})"
    assert on(WORKER, f"docker image inspect --format '{{{{.Architecture}}}}' {image}").strip() == arch
    groups = on(WORKER, "stat -f -c %T /sys/fs/cgroup").strip()
    assert groups == "cgroup2fs" and not on(WORKER, "findmnt --types cgroup", check=False)
    profile = on(WORKER, f"docker inspect --format '{{{{.AppArmorProfile}}}}' {ENGINE}").strip()
    assert profile == "docker-default"
    enforced = on(WORKER, "aa-status --enforced").strip()
    links = [" ".join(line.split()[1:]) for line in on(WORKER, "rdma link").splitlines()]
    assert len(links) == len(RDMA)
    how = "emulated (TCG)" if accelerator.is_emulated(arch) else "KVM"
    page.tell(
        arch,
        kernel=kernel,
        runs=f"{how}, {command.CORES} cores and {command.MEMORY_MIB} MiB each",
        groups=f"{groups} alone",
        apparmor=f"{enforced} profiles in force, {profile} around the engine",
        rdma="; ".join(links),
    )


def test_a_second_deploy_changes_nothing(scene: Machines) -> None:
    page.tell(scene.variant, second=f"{deployed_again(scene)}, no changes")


def test_the_doctor_measures_rdma_and_finds_a_device_that_is_gone(scene: Machines) -> None:
    _, told, _ = doctor(inventory=scene.inventory)
    measured = [" ".join(line.split()) for line in told.splitlines() if "RDMA" in line]
    for rail in RAILS:
        assert any("GB/s" in line and (LINKS[rail] in line or RDMA[rail] in line) for line in measured), told
    on(WORKER, f"rdma link delete {DEVICE}")
    try:
        code, _, bad = doctor("NET=0", inventory=scene.inventory, knobs=WANTS_RDMA)
    finally:
        on(WORKER, f"systemctl restart lab-{DEVICE}")
    gone = [row for row in bad if "rdma-no-device" in row]
    assert code != 0 and len(gone) == 1 and WORKER.name in gone[0], bad
    _, _, bad = doctor("NET=0", inventory=scene.inventory, knobs=WANTS_RDMA)
    assert not any("rdma-no-device" in row for row in bad), bad
    page.tell(
        scene.variant, doctor="\n".join([*measured, "", f"$ rdma link delete {DEVICE}    # on {WORKER.name}", *gone])
    )


def test_the_guard_ends_a_container_through_cgroup_kill(scene: Machines) -> None:
    container_id = f"{run_folder(ENGINE)}.cid"
    before = on(WORKER, f"cat {container_id}")
    group = f"/sys/fs/cgroup/{SLICE}/docker-{before.strip()}.scope"
    assert on(WORKER, f"cat {group}/cgroup.procs").split()
    assert guarding.kill(WORKER, container_id)
    until(lambda: on(WORKER, f"cat {container_id}", check=False) not in ("", before), PATIENCE_S, 1.0)
    scene.wait_until_all_answer(time.monotonic(), scene.PATIENCE_S)


@pytest.mark.parametrize("fault", page.of(TOPOLOGY), ids=lambda fault: fault.name)
def test_under_load(scene: Machines, fault: Fault) -> None:
    happens(scene, fault)


def test_the_kernel_s_settings_are_in_force_after_boots(scene: Machines) -> None:
    for each in (HEAD, WORKER):
        for rail in RAILS:
            names = [f"net.ipv4.conf.{LINKS[rail]}.{name}" for name in ARP]
            assert on(each, f"sysctl --values {' '.join(names)}").split() == list(ARP.values())
            assert on(each, f"cat /sys/class/net/{LINKS[rail]}/mtu").strip() == "9000"
    # The worker's come from a boot: the machines' own are others.
    assert on(WORKER, f"sysctl --values net.ipv4.conf.default.{next(iter(ARP))}").strip() == "0"


def test_the_firewall_knows_an_engine_s_sockets_by_their_control_group(scene: Machines) -> None:
    ports = {INSIDE: SLICE, BESIDE: "system.slice"}
    try:
        for port, group in ports.items():
            run = f"systemd-run --quiet --collect --unit=lab-{port} --slice={group}"
            on(WORKER, f"{run} python3 -m http.server --bind 0.0.0.0 {port}")
        for port in ports:
            # On the node itself each is to be had.
            until(partial(on, WORKER, f"curl -sf 127.0.0.1:{port}", check=False), PATIENCE_S, 1.0)
        before = dropped()
        assert open_ports(WORKER.address, list(ports), silent_s=SILENT_S) == {BESIDE}
        assert dropped() > before
    finally:
        on(WORKER, f"systemctl stop {' '.join(f'lab-{port}' for port in ports)}", check=False)


def test_from_the_office_ssh_and_the_proxy_answer(scene: Machines) -> None:
    assert_shut()


def dropped() -> int:
    """Packets for sockets of the engine's group that the worker's firewall has dropped."""
    found = re.search(r"packets (\d+)", on(WORKER, "nft list counter inet tandem engine"))
    assert found
    return int(found[1])
