"""What the doctor makes of what it has seen: each symptom once, from a healthy pair with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from operations.plan.absence import NO_ROUTE, absent
from operations.plan.doctor import diagnose, figures
from operations.plan.doctor.symptom import BAD, REMARK, UNASKED, Seen, Symptom, gathered
from operations.plan.doctor.ways import between, pairs
from operations.plan.plan import ports_by_node
from operations.plan.recipes.formats import load_recipe
from tests.plan.samples import knobs, one

RAILS = ("enp1s0f0np0", "enP2p1s0f0np0")
NODES = ("spark-1", "spark-2")
PORTS = {"spark-1": {8001: "engine_port", 8000: "proxy_port"}, "spark-2": {8001: "engine_port"}}


def gpu(**changes: Any) -> Any:
    told = {"name": "NVIDIA GB10", "driver": "580.95.05", "pstate": "P0", "utilization": 96.0, "sm_mhz": 2281.0}
    return {**told, "power_w": 92.5, "celsius": 62.0, "reasons": 0, **changes}


def look(index: int) -> Any:
    """A healthy Spark."""
    port = {"mbit_s": 200_000, "firmware": "28.45.4028 (NVD0000000087)", "driver": "mlx5_core", "errors": 0}
    pcie = {"gt_s": 32.0, "width": 4}
    links = {
        rail: {
            "carrier": True,
            "up": True,
            "mtu": 9000,
            "addresses": [f"192.168.{177 + place}.{11 + index}/24"],
            "rdma": f"roce{place}",
            "driver": "mlx5_core",
        }
        for place, rail in enumerate(RAILS)
    }
    return {
        "gpu": {"gpus": [gpu(utilization=0.0, sm_mhz=208.0, power_w=4.0)], "counters": {"HW Thermal Slowdown": 0.0}},
        "kernel_log": {"readable": True, "events": [], "cut": False},
        "clock": {"running": ["systemd-timesyncd"], "stopped": [], "spared": [], "synchronized": True},
        "disk": {
            "room": [{"path": "/", "gib": 3600.0, "free_gib": 2000.0, "inodes_free": 0.9, "read_only": False}],
            "health": [
                {
                    "disk": "nvme0n1",
                    "warning": 0,
                    "used_percent": 3,
                    "spare_percent": 100,
                    "media_errors": 0,
                    "celsius": 41,
                }
            ],
            "read": {"gb_s": 5.1, "file": "/store/blob", "disk": "nvme0n1"},
        },
        "heat": {"zones": [{"name": "acpitz", "celsius": 55.0}]},
        "memory": {"total_gib": 119.0, "available_gib": 100.0, "cache_gib": 4.0, "swaps": []},
        "links": links,
        "networks": {"tandem-engine": ["IB"]},
        "ports": {rail: {**port, "pcie": dict(pcie), "pcie_max": dict(pcie)} for rail in RAILS},
        "holders": {"ports": [], "gpu": []},
        "certificate": {"days": 200.0},
        "software": {
            "system": "Ubuntu 24.04.4 LTS",
            "kernel": "6.17.0-1032-nvidia",
            "driver": "580.95.05",
            "bios": "5.36",
            "product": "NVIDIA DGX Spark",
            "docker": "28.0.0",
            "store": "overlay2",
            "nightly": [],
            "nccl": {
                "wheel": "2.28.9",
                "system": "",
                "file": "/v/nvidia/nccl/lib/libnccl.so.2",
                "version": "2.28.9",
                "size": 219,
            },
        },
    }


def healthy() -> Seen:
    """Two Sparks on one cable, deployed, nothing wrong."""

    def hears(other: str) -> Any:
        return {"ports": list(RAILS), "heard": [{"device": rail, "node": other, "from": rail} for rail in RAILS]}

    streams: list[Any] = [
        {"node": "spark-1", "peer": "spark-2", "device": rail, "peer_device": rail, "way": way, "gbit_s": 80.0}
        for rail in RAILS
        for way in ("out", "in")
    ]
    return Seen(
        looks={name: look(index) for index, name in enumerate(NODES)},
        rails=dict.fromkeys(NODES, RAILS),
        clocks={name: {"offset_s": 0.0, "doubt_s": 0.2} for name in NODES},
        cables={"spark-1": hears("spark-2"), "spark-2": hears("spark-1")},
        mtu={"spark-1": [], "spark-2": []},
        streams=streams,
        rdma=[stream | {"gbit_s": 95.0} for stream in streams],
        loads={name: {"by": "own", "samples": [gpu()] * 3, "tflops": 91.6} for name in NODES},
    )


Change = Callable[[Seen], None]


def at(path: str, value: Any, node: str = "spark-2") -> Change:
    """Something else on one node; `path` goes through the look."""

    def change(seen: Seen) -> None:
        *way, last = path.split("/")
        place: Any = seen.looks[node]
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]
        if isinstance(place, list):
            place[int(last)] = value
        else:
            place[last] = value

    return change


def load(**changes: Any) -> Change:
    def change(seen: Seen) -> None:
        seen.loads["spark-2"] = {"by": "own", "samples": [gpu(**changes)] * 3, "tflops": 36.5}

    return change


def event(kind: str, case: str) -> Change:
    return at("kernel_log/events", [{"kind": kind, "case": case, "count": 3, "last": "the line"}])


def stream(place: int, **changes: Any) -> Change:
    def change(seen: Seen) -> None:
        found: Any = seen.streams[place]
        found.update(changes)

    return change


def heard(node: str, *entries: tuple[str, str, str]) -> Change:
    def change(seen: Seen) -> None:
        seen.cables[node]["heard"] = [{"device": a, "node": b, "from": c} for a, b, c in entries]

    return change


def all_of(*changes: Change) -> Change:
    def change(seen: Seen) -> None:
        for each in changes:
            each(seen)

    return change


def field(name: str, value: Any) -> Change:
    return lambda seen: setattr(seen, name, value)


def crossed(seen: Seen) -> None:
    """The cables of the two rails are swapped at one end."""
    for node, other in (NODES, NODES[::-1]):
        heard(node, (RAILS[0], other, RAILS[1]), (RAILS[1], other, RAILS[0]))(seen)


LINK, PORT = f"links/{RAILS[1]}", f"ports/{RAILS[1]}"

#: The code of what is told, how the pair is made ill, how bad that is, and words of the row.
CASES: list[tuple[str, Change, str, str]] = [
    ("reach-no-route", field("dead", {"spark-3": absent(NO_ROUTE, "spark-3")}), BAD, "no route to host"),
    # The GPU.
    ("gpu-clock-stuck", load(sm_mhz=799.0, power_w=19.5), BAD, "the GPU works at 799 MHz and 20 W"),
    ("gpu-starved", load(power_w=28.0), BAD, "the GPU draws 28 W under full load"),
    ("gpu-clock-slow", load(sm_mhz=1800.0), REMARK, "the GPU works at 1800 MHz"),
    (
        "gpu-clocks-unequal",
        load(sm_mhz=1800.0),
        REMARK,
        "clocks under the same load: spark-1 2281 MHz, spark-2 1800 MHz",
    ),
    ("gpu-held-back-under-load", load(reasons=0x40), BAD, "under load the GPU is held back: hardware thermal slowdown"),
    ("gpu-held-back", at("gpu/gpus/0", gpu(reasons=0x81)), BAD, "the GPU is held back now: power brake"),
    ("gpu-hot", at("gpu/gpus/0", gpu(celsius=91.0)), BAD, "the GPU has 91 °C"),
    ("gpu-hot", at("gpu/gpus/0", gpu(celsius=86.0)), REMARK, "the GPU has 86 °C"),
    ("gpu-was-held-back", at("gpu/counters", {"HW Thermal Slowdown": 27.6}), REMARK, "HW Thermal Slowdown 27.6 s"),
    ("gpu-not-seen", at("gpu/gpus", []), BAD, "the driver 580.95.05 is loaded, and nvidia-smi sees no GPU"),
    (
        "gpu-shared",
        at("holders/gpu", [{"pid": "7", "process": "ollama", "mib": 4096.0}]),
        REMARK,
        "ollama (pid 7",
    ),
    # The kernel's log.
    ("log-xid", event("xid", "79"), BAD, "Xid 79, 3 times in 24 hours"),
    ("log-xid-of-a-program", event("xid", "31"), REMARK, "Xid 31, 3 times"),
    ("log-pcie-errors", event("aer", "Corrected"), REMARK, "PCIe errors (Corrected), 3 times"),
    ("log-pcie-errors", event("aer", "Uncorrectable (Fatal)"), BAD, "PCIe errors (Uncorrectable (Fatal))"),
    ("log-oom-kill", event("oom", "VLLM::EngineCor"), BAD, "VLLM::EngineCor, 3 times in 24 hours"),
    ("log-no-gpu-memory", event("no_gpu_memory", "NV_ERR_NO_MEMORY"), BAD, "NV_ERR_NO_MEMORY, 3 times"),
    (
        "log-power-off",
        event("power_off", "EXT4-fs (nvme0n1p2)"),
        REMARK,
        "EXT4-fs (nvme0n1p2), 3 times in 24 hours",
    ),
    ("log-disk-errors", event("disk", "I/O error, dev nvme0n1"), BAD, "I/O error, dev nvme0n1"),
    # The machine.
    (
        "memory-swap",
        at("memory/swaps", [{"name": "/swap", "gib": 16.0, "used_gib": 0.0}]),
        REMARK,
        "swap is on: /swap, 0.0 of",
    ),
    (
        "memory-swap",
        at("memory/swaps", [{"name": "/swap", "gib": 16.0, "used_gib": 3.0}]),
        BAD,
        "swap is on: /swap, 3.0 of",
    ),
    ("memory-page-cache", at("memory/cache_gib", 60.0), REMARK, "60.0 of 119.0 GiB are page cache"),
    ("heat-sensor", at("heat/zones/0/celsius", 97.0), BAD, "acpitz has 97 °C"),
    ("disk-full", at("disk/room/0/free_gib", 0.2), BAD, "the disk of / is full: 0.2 of 3600.0 GiB free"),
    ("disk-full", at("disk/room/0/free_gib", 20.0), BAD, "the disk of / is full: 20.0 of 3600.0 GiB free"),
    ("disk-full", at("disk/room/0/inodes_free", 0.0), BAD, "0% of its inodes"),
    ("disk-full", at("disk/room/0/free_gib", 100.0), REMARK, "the disk of / is full: 100.0 of"),
    ("disk-read-only", at("disk/room/0/read_only", True), BAD, "the file system of / is read-only"),
    ("disk-failing", at("disk/health/0/media_errors", 4), BAD, "nvme0n1: 4 media errors"),
    ("disk-failing", at("disk/health/0/warning", 4), BAD, "nvme0n1: critical warning 0x4"),
    ("disk-worn", at("disk/health/0/used_percent", 95), REMARK, "nvme0n1 has used 95 % of its life"),
    ("disk-hot", at("disk/health/0/celsius", 80), REMARK, "nvme0n1 has 80 °C"),
    ("disk-slow", at("disk/read/gb_s", 0.4), REMARK, "nvme0n1 reads 0.40 GB/s"),
    (
        "disk-speeds-unequal",
        at("disk/read/gb_s", 2.0),
        REMARK,
        "disks read unequally: spark-1 5.1 GB/s, spark-2 2.0 GB/s",
    ),
    (
        "port-held",
        at("holders/ports", [{"port": 8001, "address": "0.0.0.0", "process": "nginx", "pid": "77", "ours": False}]),
        BAD,
        "port 8001 is held by nginx (pid 77)",
    ),
    # Versions.
    (
        "software-drivers-differ",
        at("software/driver", "590.1"),
        BAD,
        "NVIDIA drivers differ: spark-1 has 580.95.05, spark-2 has 590.1",
    ),
    (
        "software-kernels-differ",
        at("software/kernel", "6.11"),
        BAD,
        "kernels differ: spark-1 has 6.17.0-1032-nvidia, spark-2 has 6.11",
    ),
    ("rail-firmware-differs", at(f"{PORT}/firmware", "28.40.1"), BAD, "the NICs' firmware differs"),
    ("software-firmware-differs", at("software/bios", "5.30"), REMARK, "firmware (BIOS) differ"),
    ("docker-versions-differ", at("software/docker", "26.1.5"), REMARK, "Docker versions differ"),
    (
        "docker-renewed-at-night",
        at("software/nightly", ["containerd.io", "docker-ce"]),
        REMARK,
        "unattended-upgrades may renew containerd.io docker-ce at night",
    ),
    ("docker-stores-differ", at("software/store", "overlayfs (containerd)"), REMARK, "Docker's stores differ"),
    (
        "nccl-differs",
        at("software/nccl/version", "2.27.3"),
        BAD,
        "different NCCLs: spark-1 has 2.28.9 (219 bytes), spark-2 has 2.27.3",
    ),
    ("nccl-differs", at("software/nccl/size", 190), BAD, "different NCCLs: spark-1 has 2.28.9 (219 bytes)"),
    ("nccl-differs", at("software/nccl/version", ""), BAD, "spark-2 has none"),
    (
        "nccl-twice",
        at("software/nccl/system", "2.28.9"),
        REMARK,
        "the image has two NCCLs, 2.28.9 (wheel) and 2.28.9 (system)",
    ),
    # Clocks.
    (
        "clock-apart",
        field("clocks", {n: {"offset_s": 9.0 * i, "doubt_s": 0.2} for i, n in enumerate(NODES)}),
        BAD,
        "9.0 s",
    ),
    (
        "clock-away",
        field("clocks", {"spark-1": {"offset_s": -60.0, "doubt_s": 0.2}}),
        REMARK,
        "60.0 s behind",
    ),
    (
        "clock-service-stopped",
        at("clock", {"running": [], "stopped": ["chrony"], "spared": [], "synchronized": False}),
        BAD,
        "the clock service chrony is stopped",
    ),
    ("clock-no-service", at("clock/running", []), REMARK, "no clock service is installed"),
    (
        "clock-unsynchronised",
        at("clock/synchronized", False),
        REMARK,
        "systemd-timesyncd runs, and the clock is not synchronised",
    ),
    # Ports and cables.
    (
        "rail-no-carrier",
        all_of(at(f"{LINK}/carrier", False), at(f"{PORT}/mbit_s", None)),
        BAD,
        f"the rail {RAILS[1]} has no carrier",
    ),
    ("rail-down", all_of(at(f"{LINK}/carrier", False), at(f"{LINK}/up", False)), BAD, f"the rail {RAILS[1]} is down"),
    ("rail-missing", field("rails", {"spark-2": ("enp9s0f0np0",)}), BAD, "there is no interface enp9s0f0np0"),
    ("rail-mtu", at(f"{LINK}/mtu", 1500), BAD, f"{RAILS[1]} has MTU 1500, not 9000"),
    (
        "rail-frames-lost",
        field("mtu", {"spark-1": ["x -> spark-2: small packets do, 9000 bytes do not"]}),
        BAD,
        "9000 bytes do not",
    ),
    ("rail-port-slow", at(f"{PORT}/mbit_s", 40_000), BAD, "runs at 40 Gbit/s"),
    ("rail-port-slow", at(f"{PORT}/mbit_s", 100_000), REMARK, "runs at 100 Gbit/s"),
    (
        "rail-pcie-slow",
        at(f"{PORT}/pcie/width", 2),
        BAD,
        f"the PCIe link of {RAILS[1]} is 32 GT/s x2, it can do 32 GT/s x4",
    ),
    ("rail-pcie-slow", at(f"{PORT}/pcie/gt_s", 2.5), BAD, "is 2.5 GT/s x4"),
    ("rail-broken-frames", at(f"{PORT}/errors", 12), REMARK, "has received 12 broken frames"),
    (
        "cable-crossed",
        crossed,
        BAD,
        f"crossed: {RAILS[0]} of spark-1 meets {RAILS[1]} of spark-2, its subnet is on {RAILS[0]}",
    ),
    (
        "cable-unjoined",
        all_of(heard("spark-1"), heard("spark-2")),
        BAD,
        "no port of the one hears a port of the other",
    ),
    (
        "cable-stranger",
        heard("spark-1", (RAILS[0], "spark-2", RAILS[0])),
        BAD,
        f"{RAILS[1]} has a carrier, and hears none",
    ),
    (
        "cable-one-way",
        heard("spark-1", (RAILS[0], "spark-2", RAILS[0])),
        BAD,
        f"spark-2 {RAILS[1]} hears spark-1 {RAILS[1]}, and is not heard",
    ),
    (
        "cable-loop",
        heard("spark-1", (RAILS[0], "spark-1", "enp1s0f1np1")),
        BAD,
        f"{RAILS[0]} hears another port of its own node",
    ),
    # What the rails carry.
    (
        "rail-tcp-slow",
        all_of(field("rdma", []), stream(1, gbit_s=7.2)),
        BAD,
        f"spark-2 {RAILS[0]} -> spark-1 {RAILS[0]} carries 7.2 Gbit/s of 126 by TCP",
    ),
    (
        "rail-tcp-less",
        all_of(field("rdma", []), stream(1, gbit_s=13.2)),
        REMARK,
        f"spark-2 {RAILS[0]} -> spark-1 {RAILS[0]} carries 13.2 Gbit/s of 126 by TCP",
    ),
    ("rail-unequal", stream(2, gbit_s=38.0), REMARK, f"spark-1 {RAILS[1]} -> spark-2 {RAILS[1]} carries 38.0 Gbit/s"),
    ("rail-no-tcp", stream(0, problem="timed out"), BAD, "no TCP gets through (timed out)"),
    (
        "rdma-slow",
        lambda seen: seen.rdma[0].update({"gbit_s": 13.2}),
        BAD,
        "carries 13.2 Gbit/s; a GB10's rail 92 to 97",
    ),
    (
        "rdma-fails",
        lambda seen: seen.rdma[0].update({"problem": "ib_write_bw gave no figure"}),
        BAD,
        "ib_write_bw gave no figure",
    ),
    # What the proxy and the engines say.
    ("certificate-ends", at("certificate/days", 29.0), REMARK, "the proxy's certificate ends in 29 days"),
    ("certificate-ends", at("certificate/days", 6.4), BAD, "the proxy's certificate ends in 6 days"),
    ("certificate-ended", at("certificate/days", -2.0), BAD, "the proxy's certificate has ended 2 days ago"),
    (
        "prefix-cache-never-hits",
        at("prefixes", [{"url": "http://127.0.0.1:8001", "asked": 20_000, "found": 0}]),
        REMARK,
        "has found none of 20,000 tokens",
    ),
    ("software-systems-differ", at("software/system", "Ubuntu 22.04"), REMARK, "systems differ: spark-1 has Ubuntu 24"),
    # What could not be asked: it has no code.
    ("no GPU", all_of(at("gpu/gpus", []), at("software/driver", "")), UNASKED, "no GPU: clocks, power, heat"),
    ("not this GPU", at("gpu/gpus/0", gpu(name="NVIDIA H100")), UNASKED, "what a NVIDIA H100 gives is not known here"),
    ("no load", lambda seen: seen.loads.update({"spark-2": {"by": "", "why": "x"}}), UNASKED, "clock under load: x"),
    ("idle meanwhile", load(utilization=3.0), UNASKED, "it had nothing to do while it was looked at"),
    ("a log too long", at("kernel_log/cut", True), UNASKED, "the end of the kernel's log"),
    ("no kernel's log", at("kernel_log/readable", False), UNASKED, "the journal has none of it here"),
    ("no tool for NVMe", at("disk/health", None), UNASKED, "neither nvme-cli nor smartmontools"),
    ("no NVMe", at("disk/health", []), UNASKED, "the NVMe's health: there is none"),
    ("nothing to read", at("disk/read", {}), UNASKED, "no model file to read"),
    (
        "a container's clock",
        at("clock", {"running": [], "stopped": [], "spared": ["chrony"], "synchronized": None}),
        UNASKED,
        "who keeps the clock",
    ),
    ("no image", at("software/nccl", {}), UNASKED, "the engine's NCCL: its image is not here"),
    (
        "an image that fails",
        at("software/nccl", {"error": "no python3"}),
        UNASKED,
        "its image does not tell: no python3",
    ),
    ("solo", field("needs_rails", False), UNASKED, "the fabric: this topology has none"),
    ("rail-no-connectx", field("rails", {"spark-2": ()}), BAD, "no interface of a ConnectX is here"),
    ("rail-half", field("rails", {"spark-2": RAILS[:1]}), REMARK, f"the port shows one interface, {RAILS[0]}"),
    ("rail-no-address", at(f"{LINK}/addresses", []), REMARK, f"{RAILS[1]} has no address, {RAILS[0]} has"),
    (
        "left out",
        all_of(field("streams", []), field("skipped", ("net",))),
        UNASKED,
        "what the rails carry: left out (--no-load)",
    ),
    ("no addresses", field("streams", []), UNASKED, "no two nodes have addresses on a rail"),
    (
        "no RDMA device",
        all_of(
            *(at(f"links/{rail}/rdma", None, node) for rail in RAILS for node in NODES),
            *(at(f"links/{rail}/driver", "veth", node) for rail in RAILS for node in NODES),
        ),
        UNASKED,
        "no RDMA device is here",
    ),
    (
        "rdma-no-device",
        all_of(*(at(f"links/{rail}/rdma", None, node) for rail in RAILS for node in NODES)),
        BAD,
        f"no RDMA device is on `{RAILS[0]}` and `{RAILS[1]}`",
    ),
    (
        "no RDMA is wanted",
        all_of(at(f"{LINK}/rdma", None), field("wants_rdma", False)),
        UNASKED,
        "RDMA: not every rail has a device, and this topology uses none",
    ),
    ("rdma-no-device", at(f"{LINK}/rdma", None), BAD, f"no RDMA device is on `{RAILS[1]}`"),
    (
        "rdma-no-device",
        all_of(*(at(f"links/{rail}/rdma", None) for rail in RAILS)),
        BAD,
        f"no RDMA device is on `{RAILS[0]}` and `{RAILS[1]}`",
    ),
    (
        "no perftest",
        lambda seen: seen.rdma[0].update({"missing": True}),
        UNASKED,
        "no ib_write_bw (apt install perftest)",
    ),
    (
        "nccl-sockets",
        at("networks/tandem-engine", ["IB", "Socket"]),
        BAD,
        "NCCL in tandem-engine was told of RDMA devices and uses sockets",
    ),
    (
        "nccl-part-of-rdma",
        at("networks/tandem-engine", ["IB", "part"]),
        BAD,
        "NCCL in tandem-engine uses a part of its RDMA devices",
    ),
    ("a look that failed", at("heat", {"failed": "OSError: no"}), UNASKED, "heat: OSError: no"),
]


def test_a_healthy_pair_has_nothing_at_all() -> None:
    assert diagnose(healthy(), PORTS) == []


def test_a_node_without_a_certificate_has_none_that_ends() -> None:
    seen = healthy()
    at("certificate", {})(seen)
    assert diagnose(seen, PORTS) == []


@pytest.mark.parametrize(("code", "change", "severity", "said"), CASES, ids=[case[0] for case in CASES])
def test_a_symptom_is_told(code: str, change: Change, severity: str, said: str) -> None:
    seen = deepcopy(healthy())
    change(seen)
    found = diagnose(seen, PORTS)
    told = [each for each in found if said in each.seen]
    assert [each.severity for each in told][:1] == [severity], [each.seen for each in found]
    assert told[0].code == ("" if severity == UNASKED else code)
    # A row says what it means and what helps; a line about what was not asked says enough in itself.
    assert severity == UNASKED or (told[0].means and told[0].where)
    assert severity != BAD or told[0].remedy


def test_the_worst_comes_first_and_what_is_equal_once() -> None:
    one = [Symptom(REMARK, ("a",), "swap"), Symptom(BAD, ("a",), "full"), Symptom(REMARK, ("b",), "swap")]
    assert gathered(one) == [Symptom(BAD, ("a",), "full"), Symptom(REMARK, ("a", "b"), "swap")]


def test_the_two_halves_of_a_port_may_hear_each_other() -> None:
    seen = healthy()
    for node, other in (NODES, NODES[::-1]):
        entries = [(rail, name, source) for rail in RAILS for name in (node, other) for source in RAILS]
        heard(node, *entries)(seen)
    assert diagnose(seen, PORTS) == []


def test_both_ports_of_a_node_on_one_switch_are_no_loop() -> None:
    """Every port hears every other one, its own node's too."""
    seen = healthy()
    ports = (*RAILS, "enp1s0f1np1", "enP2p1s0f1np1")
    for node in NODES:
        seen.cables[node]["ports"] = list(ports)
        entries = [(port, name, source) for port in ports for name in NODES for source in ports]
        heard(node, *(each for each in entries if (node, each[0]) != each[1:]))(seen)
    assert diagnose(seen, PORTS) == []


def test_where_rdma_is_right_slow_tcp_says_nothing_of_the_port() -> None:
    """All streams alike on nodes whose cores are busy."""
    seen = healthy()
    for each in seen.streams:
        each["gbit_s"] = 13.2
    assert diagnose(seen, PORTS) == []


def test_an_unused_port_is_nobody_s_fault() -> None:
    """The second port of a Spark has no cable, and no carrier."""
    seen = healthy()
    told: Any
    for told in seen.looks.values():
        told["links"]["enp1s0f1np1"] = {"carrier": False, "up": True, "mtu": 1500, "addresses": [], "rdma": "r"}
    assert diagnose(seen, PORTS) == []


def test_the_proxy_s_port_is_the_head_s_alone() -> None:
    nginx = {"port": 8000, "address": "0.0.0.0", "process": "nginx", "pid": "77", "ours": False}
    for node, count in (("spark-1", 1), ("spark-2", 0)):
        seen = healthy()
        at("holders/ports", [nginx], node)(seen)
        assert len(diagnose(seen, PORTS)) == count


MEETING, MASTER, COPY = 26000, 26001, 26030


@pytest.mark.parametrize(
    ("changes", "head", "worker"),
    [
        ({"topology": "solo"}, {8000, 8001}, set()),
        ({"topology": "replicas"}, {8000, 8001, COPY + 1}, {8000, 8001}),
        ({"topology": "cluster", "executor": "mp"}, {8000, 8001, COPY + 1, MEETING, MASTER}, {8000}),
    ],
)
def test_a_node_is_watched_where_it_listens_and_nowhere_else(changes: Any, head: set[int], worker: set[int]) -> None:
    wanted = knobs(**changes)
    ports = ports_by_node(one(load_recipe(wanted.recipe), wanted), ["spark-1", "spark-2"])
    assert set(ports["spark-1"]) == head and set(ports["spark-2"]) == worker


def test_a_copy_s_port_is_watched_on_the_node_that_wants_it() -> None:
    """A third node has a copy's port of its own; nobody listens on the first of them."""
    wanted = knobs(topology="replicas")
    ports = ports_by_node(one(load_recipe(wanted.recipe), wanted), ["a", "b", "c"])
    assert COPY + 2 in ports["c"] and COPY not in ports["a"]


def test_what_was_measured_is_told() -> None:
    told = "\n".join(figures(healthy()))
    assert f"spark-1 {RAILS[0]} <-> spark-2 {RAILS[0]}" in told
    assert f"spark-2 {RAILS[1]} -> spark-1 {RAILS[1]}: TCP 10.00 GB/s (80.0 of 126 Gbit/s)" in told
    assert "spark-2: GPU under load 2281 MHz, 92 W, 91.6 TFLOP/s in BF16" in told
    assert "spark-1: NCCL in tandem-engine uses IB\n" in told
    assert "spark-1: NCCL 2.28.9 in the engine's image" in told and "spark-1: nvme0n1 reads 5.1 GB/s" in told


@pytest.mark.parametrize(
    ("networks", "told"),
    [(["IB", "part"], "spark-2: NCCL in tandem-engine uses IB (a part of its devices)"), (["part"], ""), ([], "")],
)
def test_a_part_of_rdma_is_no_network(networks: list[str], told: str) -> None:
    seen = healthy()
    at("networks/tandem-engine", networks)(seen)
    assert "".join(line for line in figures(seen) if line.startswith("spark-2: NCCL in tandem-engine")) == told


def test_ways_between_two_nodes_are_found_by_their_subnets() -> None:
    one, other = (look(index)["links"] for index in (0, 1))
    assert [(way["device"], way["own"], way["address"]) for way in between(one, other)] == [
        (RAILS[0], "192.168.177.11", "192.168.177.12"),
        (RAILS[1], "192.168.178.11", "192.168.178.12"),
    ]
    other[RAILS[0]]["carrier"] = False
    assert [way["device"] for way in between(one, other)] == [RAILS[1]]
    assert pairs(["a", "b"]) == [("a", "b")] and pairs(["a"]) == []
    assert pairs(["a", "b", "c"]) == [("a", "b"), ("b", "c"), ("c", "a")]


@pytest.mark.parametrize(
    "change",
    [
        at("gpu/gpus/0/celsius", 88.0),
        at("gpu/gpus/0/reasons", 0x40),
        at("gpu/counters", {"HW Power Braking": 12.0}),
        event("power_off", "EXT4-fs (nvme0n1p2)"),
    ],
)
def test_heat_throttling_and_power_that_fails_are_answered_with_a_cap_of_the_clock(change: Change) -> None:
    seen = deepcopy(healthy())
    change(seen)
    told = [symptom for symptom in diagnose(seen, PORTS) if symptom.severity in (BAD, REMARK)]
    assert told and all("gpu_clock_mhz = 2100 in group_data/all.py" in symptom.remedy for symptom in told)


def test_of_twins_that_hear_each_other_like_and_like_are_the_cable() -> None:
    """Both netdevs of a port are one L2: each hears its own twin, and both of the other node's."""
    seen = healthy()
    for node, other in (NODES, NODES[::-1]):
        seen.cables[node]["heard"] = [
            {"device": rail, "node": of, "from": source}
            for rail in RAILS
            for of, source in ((other, RAILS[0]), (other, RAILS[1]), (node, RAILS[1 - RAILS.index(rail)]))
        ]
    assert [line for line in figures(seen) if "<->" in line] == [
        f"spark-1 {rail} <-> spark-2 {rail}" for rail in sorted(RAILS)
    ]
    assert not [each for each in diagnose(seen, {}) if each.severity == "bad"]
