"""Two booted machines: what they have that hosts in namespaces don't, and faults that want a kernel of their own.

`make test-machines` runs it: under emulation a boot takes minutes. The tests follow each other on the same machines.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest

from tests.lab import desk, node
from tests.lab.cluster import HEAD, WORKER, lab, on
from tests.lab.qemu.units import RDMA
from tests.lab.settings import LINKS, PREFIX, known_nodes

pytestmark = [pytest.mark.lab, pytest.mark.machines, pytest.mark.usefixtures("booted")]
RAIL, TWIN = RAILS = (LINKS["rail0"], LINKS["rail1"])
DEVICE, SECOND = DEVICES = (RDMA["rail0"], RDMA["rail1"])


def until(holds: Callable[[], bool], what: str, within_s: float = 120) -> float:
    """Seconds until something holds; an emulated machine takes its time."""
    start = time.monotonic()
    while not holds():
        assert time.monotonic() - start < within_s, f"not in {within_s} s: {what}"
        time.sleep(0.5)
    return time.monotonic() - start


def has_carrier(link: str) -> bool:
    return on(HEAD, f"cat /sys/class/net/{link}/carrier", check=False).strip() == "1"


def test_a_machine_has_a_kernel_cgroups_and_confinement_of_its_own() -> None:
    machine = desk.cpu(desk.remembered().arch)
    for each in (HEAD, WORKER):
        assert on(each, "uname -m").strip() == machine
        assert on(each, "stat -f -c %T /sys/fs/cgroup").strip() == "cgroup2fs"
        assert on(each, "cat /sys/module/apparmor/parameters/enabled").strip() == "Y"
        assert "docker-default" in on(
            each, "aa-status --enforced >/dev/null; cat /sys/kernel/security/apparmor/profiles"
        )
        assert on(each, f"systemctl is-active docker lab-{DEVICE}").split() == ["active", "active"]
        assert on(each, "docker info --format '{{.CgroupVersion}} {{.Architecture}}'").strip() == f"2 {machine}"
        assert set(on(each, "ls /sys/class/net").split()) >= set(LINKS.values())


def test_each_rail_has_an_rdma_device_and_jumbo_frames_and_bytes_pass() -> None:
    for each, last in ((HEAD, 1), (WORKER, 2)):
        assert set(RDMA.values()) <= set(on(each, "ls /sys/class/infiniband").split())
        assert "uverbs0" in on(each, "ls /dev/infiniband")
        for half, (link, device) in enumerate(zip(RAILS, DEVICES, strict=True)):
            on(each, f"ip link set {link} up mtu 9000; ip addr replace 10.9.{half}.{last}/24 dev {link}")
            assert f"link {device}/1 state ACTIVE physical_state LINK_UP netdev {link}" in on(each, "rdma link")
            gids = on(each, f"cat /sys/class/infiniband/{device}/ports/1/gids/* 2>/dev/null; :")
            assert f"ffff:0a09:{half:02x}{last:02x}" in gids
    for half, device in enumerate(DEVICES):
        on(HEAD, f"ping -c 1 -W 20 -M do -s 8972 10.9.{half}.2")
        measure = f"ib_write_bw -d {device} -x 1 -n 50 -s 4096 --report_gbits"
        on(WORKER, f"systemd-run --quiet --collect --unit=lab-measure-{half} {measure}")
        until(lambda: "18515" in on(WORKER, "ss -ltn"), "ib_write_bw listens")
        assert "4096" in on(HEAD, f"timeout 120 {measure} 10.9.{half}.2")


def test_a_cable_that_is_cut_takes_the_carriers_of_both() -> None:
    lab("cut", "spark-2:rail0")
    until(lambda: not has_carrier(RAIL), "the carrier goes")
    assert has_carrier(TWIN)
    assert f"link {DEVICE}/1 state DOWN" in on(HEAD, "rdma link")
    lab("heal", "spark-2:rail0")
    until(lambda: has_carrier(RAIL), "the carrier comes back")


def test_a_netdev_that_is_taken_takes_its_rdma_device_and_both_come_back() -> None:
    index = on(WORKER, f"cat /sys/class/net/{RAIL}/ifindex")
    lab("take", "spark-2:rail0")
    assert RAIL not in on(WORKER, "ls /sys/class/net") and DEVICE not in on(WORKER, "ls /sys/class/infiniband")
    until(lambda: not has_carrier(RAIL), "the other end has no carrier")
    lab("give", "spark-2:rail0")
    until(lambda: DEVICE in on(WORKER, "ls /sys/class/infiniband"), "the RDMA device is back")
    assert on(WORKER, f"cat /sys/class/net/{RAIL}/ifindex") != index
    # It is new: nobody has given it an address, or the MTU.
    assert "10.9.0.2" not in on(WORKER, f"ip addr show {RAIL}")


def test_a_frozen_machine_answers_nothing_keeps_its_carriers_and_goes_on() -> None:
    before = on(WORKER, "cat /proc/uptime")
    lab("freeze", "spark-2")
    # A login would be waited for; its kernel does not even answer a ping.
    ping = ["ping", "-c", "1", "-W", "5", WORKER.address]
    assert subprocess.run(ping, capture_output=True, check=False).returncode == 1 and has_carrier(TWIN)
    lab("thaw", "spark-2")
    until(lambda: node.boot_id(WORKER) != "", "it answers")
    assert float(on(WORKER, "cat /proc/uptime").split()[0]) > float(before.split()[0])


def test_a_power_cut_takes_carriers_and_is_another_boot() -> None:
    before = node.boot_id(WORKER)
    on(WORKER, "echo kept > /root/kept; sync; echo lost > /root/lost")
    lab("power-off", "spark-2")
    until(lambda: not has_carrier(TWIN), "the other end has no carrier")
    lab("power-on", "spark-2")
    assert node.boot_id(WORKER) not in ("", before)
    assert on(WORKER, "cat /root/kept").strip() == "kept"


def test_a_reboot_of_its_own_begins_anew_with_its_rdma_devices() -> None:
    before = node.boot_id(WORKER)
    lab("reboot", "spark-2")
    assert node.boot_id(WORKER) not in ("", before)
    until(lambda: set(RDMA.values()) <= set(on(WORKER, "ls /sys/class/infiniband").split()), "RDMA devices")


def test_down_leaves_nothing() -> None:
    lab("down")
    assert not known_nodes()
    # Its interfaces and namespaces have names of their own: the other lab may be up.
    left = subprocess.run(["sh", "-c", "ip -br link; ip netns list"], capture_output=True, text=True, check=True).stdout
    assert f"{PREFIX}-" not in left and "vm1-" not in left
