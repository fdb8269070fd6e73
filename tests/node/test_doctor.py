"""What the doctor's programs see: of this machine where it has it, of a double where it has not (and then named so)."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operations.node import lock
from operations.node.doctor import (
    clock,
    disk,
    gpu_load,
    holders,
    kernel_log,
    look,
    memory,
    networks,
    ports,
    rdma,
    reading,
    software,
)
from operations.node.image import container
from operations.node.machine import gpu, heat
from operations.node.network import links
from operations.node.unit import services
from operations.plan.cluster import nccl
from operations.runner import remote
from tests.node.shipped import FILES
from tests.support.ports import free_port
from tests.support.serving import Quiet, serving

DOUBLES = Path(__file__).parent / "doubles"
TOPICS = {
    "gpu",
    "kernel_log",
    "clock",
    "disk",
    "heat",
    "memory",
    "links",
    "networks",
    "ports",
    "holders",
    "software",
    "certificate",
    "prefixes",
}


@pytest.fixture
def doubles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH on which nvidia-smi and docker are doubles; the folder that is their image."""
    path, image = tmp_path / "bin", tmp_path / "image"
    path.mkdir()
    image.mkdir()
    (path / "nvidia-smi").symlink_to(DOUBLES / "nvidia_smi_double")
    (path / "docker").symlink_to(DOUBLES / "docker_double")
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    monkeypatch.setenv("DOUBLE_IMAGE", str(image))
    return image


def test_every_topic_is_looked_at_on_this_machine() -> None:
    told: Any = look.main("/nowhere", "", [8001])
    assert set(told) == TOPICS
    assert not [topic for topic in told.values() if "failed" in topic]
    assert told["memory"]["total_gib"] > 1 and told["disk"]["room"][0]["path"] == "/"
    json.dumps(told)


def test_one_topic_that_fails_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heat, "main", lambda: 1 / 0)
    told: Any = look.main("/nowhere", "", [])
    assert told["heat"] == {"failed": "ZeroDivisionError: division by zero"}
    assert told["memory"]["total_gib"] > 1


def test_a_topic_that_hangs_is_one_line_and_the_program_ends() -> None:
    """As a node runs it: a process that can't end while a thread of its waits for one that does not die."""
    code = (
        "import json, time; from operations.node.doctor import look; from operations.node.machine import gpu;"
        "look.PATIENCE_S = 3; gpu.main = lambda: time.sleep(3600); print(json.dumps(look.main('/nowhere', '', [])))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20)
    told = json.loads(done.stdout)
    assert told["gpu"] == {"failed": "hangs; nothing was told in 3 s"} and "failed" not in told["memory"]


def test_a_kernel_s_log_without_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A double of journalctl: one line, and then it goes on for ever."""
    (tmp_path / "journalctl").write_text("#!/bin/sh\necho 'kernel: NVRM: Xid (PCI:000f): 79, x'\nexec sleep 60\n")
    (tmp_path / "journalctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(kernel_log, "PATIENCE_S", 0.3)
    told = kernel_log.main()
    assert told["cut"] and [event["case"] for event in told["events"]] == ["79"]


def test_programs_in_folders_travel_like_the_others() -> None:
    """As a node runs them: from memory, with what comes on standard input."""
    argv = shlex.split(remote.command("doctor.clock", {}).get_raw_value())
    argv[0] = sys.executable
    done = subprocess.run(
        argv, input=str.__str__(remote.programs()), capture_output=True, text=True, cwd="/", check=True
    )
    assert abs(json.loads(done.stdout)["now"] - time.time()) < 30


# --- The GPU -------------------------------------------------------------------------------------------------------


def test_no_gpu_is_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu.main() == {"gpus": [], "counters": {}} and gpu.processes() == [] and gpu_load.main("x") == {}


@pytest.mark.usefixtures("doubles")
def test_what_the_double_of_nvidia_smi_says() -> None:
    told = gpu.main()
    assert told["gpus"] == [
        {
            "name": "NVIDIA GB10",
            "driver": "580.95.05",
            "pstate": "P0",
            "utilization": 96.0,
            "sm_mhz": 799.0,
            "power_w": 19.53,
            "celsius": 62.0,
            "reasons": 0,
        }
    ]
    assert told["counters"] == {"SW Thermal Slowdown": 27.6, "HW Thermal Slowdown": 0.403805, "HW Power Braking": 0.0}


def test_what_nvidia_smi_does_not_tell_is_none() -> None:
    (told,) = gpu.parse("NVIDIA GB10, 580.95.05, P8, [N/A], 208, [Not Supported], 41, 0x00000000000000A1\n")
    assert told["utilization"] is None and told["power_w"] is None and told["reasons"] == 0xA1


#: A torch that computes nothing, in the double's image.
TORCH_DOUBLE = """
import time
bfloat16 = None
class cuda:
    synchronize = staticmethod(lambda: None)
class _M:
    def __matmul__(self, other):
        time.sleep(0.01)
def randn(*_, **__):
    return _M()
"""


def test_the_gpu_is_looked_at_while_a_program_computes(doubles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (doubles / "torch.py").write_text(TORCH_DOUBLE)
    monkeypatch.setattr(gpu_load, "LOOK_S", 1)
    told = gpu_load.main("tandem/engine:1")
    assert told["by"] == "own" and len(told["samples"]) >= 3 and told["tflops"] > 0
    assert told["samples"][0]["sm_mhz"] == 799


@pytest.mark.usefixtures("doubles")
def test_why_the_gpu_was_not_loaded(doubles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu_load.main("other")["why"] == "the engine's image is not here"
    (doubles / "torch.py").write_text("raise ImportError")
    assert gpu_load.main("tandem/engine:1")["why"] == "a program on it failed: no torch in the image"
    monkeypatch.setenv("DOUBLE_APPS", "77, /usr/bin/ollama, 4096")
    assert gpu_load.main("tandem/engine:1")["why"] == "/usr/bin/ollama (pid 77) uses it"


def test_an_engine_that_runs_is_asked_and_nothing_else_is_started(
    doubles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Any = []

    class Engine(Quiet):
        def do_GET(self) -> None:
            self.reply(b'{"data": []}')

        def do_POST(self) -> None:
            asked.append(self.sent())
            self.reply(b"{}")

    monkeypatch.setattr(gpu_load, "LOOK_S", 1)
    with serving(Engine) as url:
        labels = {"tandem.url": url, "tandem.model": "tiny"}
        engine = [{"Name": "/tandem-engine", "State": {"Running": True}, "Config": {"Labels": labels}}]
        monkeypatch.setenv("DOUBLE_ENGINE", json.dumps(engine))
        told = gpu_load.main("tandem/engine:1")
    assert told["by"] == "engine" and len(told["samples"]) >= 2 and "tflops" not in told
    assert [body["model"] for body in asked] == ["tiny"]


def systemctl(doubles: Path, state: str) -> None:
    """A double on which the engine's unit is in this state."""
    double = doubles.parent / "bin/systemctl"
    double.write_text(f"#!/bin/sh\necho ActiveState={state}\n")
    double.chmod(0o755)


def test_no_load_while_an_engine_starts(doubles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    systemctl(doubles, "activating")
    assert gpu_load.main("tandem/engine:1") == {"by": "", "why": "tandem-engine is activating", "samples": []}
    systemctl(doubles, "active")
    assert gpu_load.main("tandem/engine:1")["why"] == "tandem-engine is active, and its container does not run yet"
    url = f"http://127.0.0.1:{free_port()}"
    engine = {"Name": "/tandem-engine", "State": {"Running": True}, "Config": {"Labels": {"tandem.url": url}}}
    monkeypatch.setenv("DOUBLE_ENGINE", json.dumps([engine]))
    assert "tandem-engine does not answer" in gpu_load.main("tandem/engine:1")["why"]


@pytest.mark.usefixtures("doubles")
def test_no_load_while_a_deploy_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PLACE", tmp_path / "lock")
    with lock.PLACE.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert gpu_load.main("other")["why"] == "a deploy or a bench is going on"
    assert gpu_load.main("other")["why"] == "the engine's image is not here"


def test_a_container_that_hangs_is_removed_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A double of docker that writes down what it is asked, and whose containers never end."""
    said = tmp_path / "said"
    (tmp_path / "docker").write_text(f'#!/bin/sh\necho "$@" >>{said}\n[ "$1" = rm ] || exec sleep 60\n')
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    names = []
    for _ in range(2):
        said.write_text("")
        with pytest.raises(TimeoutError):
            container.run("image", "", 0.3)
        started, removed = said.read_text().splitlines()
        names.append(started.split("--name ")[1].split()[0])
        assert removed == f"rm --force {names[-1]}"
    assert names[0] != names[1]


# --- Versions ------------------------------------------------------------------------------------------------------


def wheel(image: Path, version: str) -> None:
    """The wheel of NCCL as it lies in an image, without what is in the library."""
    info = image / f"nvidia_nccl_cu13-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: nvidia-nccl-cu13\nVersion: {version}\n")
    (info / "RECORD").write_text("")
    library = image / "nvidia/nccl/lib/libnccl.so.2"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"\0" * 100 + f"NCCL version {version}+cuda13.0".encode())


def test_the_nccl_of_an_image_is_its_wheel_s(doubles: Path) -> None:
    wheel(doubles, "2.28.9")
    told = software.nccl("tandem/engine:1")
    assert told["version"] == told["wheel"] == "2.28.9" and told["size"] > 100
    assert told["file"] == str(doubles / "nvidia/nccl/lib/libnccl.so.2")


def test_a_library_that_is_named_or_on_the_path_goes_before_the_wheel_s(
    doubles: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel(doubles, "2.28.9")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libnccl.so.2.30.1").write_bytes(b"x")
    (tmp_path / "lib/libnccl.so.2").symlink_to("libnccl.so.2.30.1")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "lib"))
    assert software.nccl("tandem/engine:1")["version"] == "2.30.1"
    monkeypatch.setenv("VLLM_NCCL_SO_PATH", str(doubles / "nvidia/nccl/lib/libnccl.so.2"))
    assert software.nccl("tandem/engine:1")["version"] == "2.28.9"


def test_an_image_without_nccl_and_no_image(doubles: Path) -> None:
    assert software.nccl("tandem/engine:1")["version"] == ""
    assert software.nccl("") == {} and software.nccl("tandem/engine:2") == {}
    (doubles / "re.py").write_text("raise SystemExit('broken')")
    assert "error" in software.nccl("tandem/engine:1")


@pytest.mark.usefixtures("doubles")
def test_docker_s_store_by_its_driver() -> None:
    assert software.main("")["store"] == "overlayfs (containerd)"
    assert software.store({"Driver": "overlay2", "DriverStatus": [["Backing Filesystem", "extfs"]]}) == "overlay2"
    assert software.main("")["kernel"] == os.uname().release


def test_docker_s_packages_that_the_night_may_renew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubles of apt and dpkg: what is installed here is nobody's business."""
    said = {
        "apt-config": "echo 'APT::Periodic::Unattended-Upgrade \"1\";'",
        "dpkg-query": "printf 'installed %s\\n' docker-ce containerd.io zsh; echo config-files docker.io",
        "apt-mark": "echo containerd.io",
    }
    for name, script in said.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert software.nightly() == ["docker-ce"]
    (tmp_path / "apt-config").write_text("#!/bin/sh\necho 'APT::Periodic::Unattended-Upgrade \"0\";'\n")
    assert software.nightly() == []


# --- The kernel's log ----------------------------------------------------------------------------------------------

KERNEL = """\
2026-11-22T10:00:00+0000 spark-1 kernel: NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.
2026-11-22T10:00:01+0000 spark-1 kernel: NVRM: Xid (PCI:000f:01:00): 31, pid=2113, name=VLLM::Worker, MMU Fault
2026-11-22T10:00:02+0000 spark-1 kernel: NVRM: Xid (PCI:000f:01:00): 31, pid=2114, name=VLLM::Worker, MMU Fault
2026-11-22T10:00:03+0000 spark-1 kernel: NVRM: _memdescAllocInternal: NV_ERR_NO_MEMORY returned
2026-11-22T10:00:04+0000 spark-1 kernel: pcieport 0002:00:00.0: PCIe Bus Error: severity=Corrected, type=Data
2026-11-22T10:00:05+0000 spark-1 kernel: mlx5_core 0002:01:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=X
2026-11-22T10:00:06+0000 spark-1 kernel: Out of memory: Killed process 2113 (VLLM::EngineCor) total-vm:1kB
2026-11-22T10:00:07+0000 spark-1 kernel: Memory cgroup out of memory: Killed process 9 (python3) total-vm:1kB
2026-11-22T10:00:08+0000 spark-1 kernel: nvme nvme0: I/O tag 5 (1005) opcode 0x2 (I/O Cmd) QID 3 timeout, aborting
2026-11-22T10:00:09+0000 spark-1 kernel: blk_update_request: I/O error, dev nvme0n1, sector 8
2026-11-22T10:00:10+0000 spark-1 kernel: mlx5_core 0000:01:00.0: Detected insufficient power on the PCIe slot (27W).
2026-11-22T10:00:11+0000 spark-1 kernel: EXT4-fs (nvme0n1p2): recovery complete
2026-11-22T10:00:12+0000 spark-1 kernel: XFS (dm-0): Ending recovery (logdev: internal)
2026-11-22T10:00:13+0000 spark-1 kernel: EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode.
"""


def test_what_the_kernel_says_is_told_apart() -> None:
    lines, events = kernel_log.parse(KERNEL.splitlines())
    assert lines == 14
    assert {(event["kind"], event["case"]): event["count"] for event in events} == {
        ("xid", "79"): 1,
        ("xid", "31"): 2,
        ("no_gpu_memory", "NV_ERR_NO_MEMORY"): 1,
        ("aer", "Corrected"): 1,
        ("aer", "Uncorrectable (Fatal)"): 1,
        ("oom", "VLLM::EngineCor"): 1,
        ("oom", "python3"): 1,
        ("power_off", "EXT4-fs (nvme0n1p2)"): 1,
        ("power_off", "XFS (dm-0)"): 1,
        ("disk", "nvme0"): 1,
        ("disk", "I/O error, dev nvme0n1"): 1,
    }
    assert next(event for event in events if event["case"] == "31")["last"].endswith("MMU Fault")


# --- Memory, heat, disks -------------------------------------------------------------------------------------------


def test_swap_and_cache_of_a_written_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meminfo").write_text(
        "MemTotal: 125829120 kB\nMemAvailable: 104857600 kB\nBuffers: 1048576 kB\n"
        "Cached: 52428800 kB\nShmem: 1048576 kB\n"
    )
    (tmp_path / "swaps").write_text("Filename Type Size Used Priority\n/swap.img file 16777216 2097152 -2\n")
    monkeypatch.setattr(memory, "PROC", tmp_path)
    assert memory.main() == {
        "total_gib": 120.0,
        "available_gib": 100.0,
        "cache_gib": 50.0,
        "swaps": [{"name": "/swap.img", "gib": 16.0, "used_gib": 2.0}],
    }


def test_thermal_zones_of_a_written_sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, text in enumerate(("61500", "", "N/A")):
        zone = tmp_path / f"thermal_zone{number}"
        zone.mkdir()
        (zone / "type").write_text("acpitz\n")
        (zone / "temp").write_text(text)
    monkeypatch.setattr(heat, "ZONES", tmp_path)
    assert heat.main() == {"zones": [{"name": "acpitz", "celsius": 61.5}]}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a disk")
def test_a_full_disk_is_seen(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "full", tmp_path], check=True)
    try:
        with pytest.raises(OSError), (tmp_path / "ballast").open("wb") as ballast:
            ballast.write(bytes(2 << 20))
        root, full = disk.room(["/", "/etc", str(tmp_path), "/nowhere"])
        assert root["path"] == "/" and root["free_gib"] > 0
        assert full["path"] == str(tmp_path) and full["free_gib"] == 0
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_disk_is_read_around_the_cache(tmp_path: Path) -> None:
    blobs = tmp_path / "models--org--name/blobs"
    blobs.mkdir(parents=True)
    # Written, not truncated: a hole is read from nowhere.
    (blobs / "large").write_bytes(os.urandom(1 << 20) * (reading.LEAST >> 20))
    os.sync()
    told = reading.main(tmp_path)
    assert told["file"].endswith("large") and told["gb_s"] > 0.01
    assert told["disk"] == reading.disk_of(tmp_path)
    assert reading.main(tmp_path / "none") == {}


def test_the_health_of_an_nvme_in_both_tools_words() -> None:
    """The form of nvme-cli's and smartmontools' JSON; no NVMe is here."""
    smart_log = {"critical_warning": 4, "temperature": 314, "avail_spare": 99, "percent_used": 3, "media_errors": 2}
    expected = {"warning": 4, "used_percent": 3, "spare_percent": 99, "media_errors": 2, "celsius": 41}
    assert disk.smart_log(json.dumps(smart_log)) == expected
    assert disk.smart_log(json.dumps(smart_log | {"critical_warning": {"value": 4}})) == expected
    information = {
        "critical_warning": 4,
        "temperature": 41,
        "available_spare": 99,
        "percentage_used": 3,
        "media_errors": 2,
    }
    assert disk.smartctl(json.dumps({"nvme_smart_health_information_log": information})) == expected
    assert disk.smart_log("not json") == disk.smartctl("{}") == {}


# --- The clock -----------------------------------------------------------------------------------------------------


def units(*blocks: str) -> str:
    return "\n\n".join(blocks) + "\n"


RUNS = "Id=chrony.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\nConditionResult=yes"
STOPPED = "Id=chrony.service\nLoadState=loaded\nActiveState=inactive\nUnitFileState=enabled\nConditionResult=yes"
GONE = "Id=ntp.service\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\nConditionResult=no"
SPARED = (
    "Id=systemd-timesyncd.service\nLoadState=loaded\nActiveState=inactive\nUnitFileState=enabled\nConditionResult=no\n"
    "InactiveEnterTimestampMonotonic=0"
)


@pytest.mark.parametrize(
    ("blocks", "key", "names"),
    [
        ((RUNS, RUNS, GONE), "running", ["chrony"]),
        ((STOPPED, GONE), "stopped", ["chrony"]),
        ((SPARED, GONE), "spared", ["systemd-timesyncd"]),
        ((SPARED.replace("=enabled", "=disabled"),), "stopped", ["systemd-timesyncd"]),
    ],
)
def test_who_keeps_the_clock(
    monkeypatch: pytest.MonkeyPatch, blocks: tuple[str, ...], key: str, names: list[str]
) -> None:
    answers = {"systemctl": units(*blocks), "timedatectl": "yes\n"}
    monkeypatch.setattr(clock, "output", lambda *argv: answers[argv[0]])
    told: Any = clock.service()
    assert told[key] == names and told["synchronized"] is True
    assert sum(len(told[each]) for each in ("running", "stopped", "spared")) == 1


def test_nobody_keeps_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "output", lambda *argv: units(GONE) if argv[0] == "systemctl" else "")
    assert clock.service() == {"running": [], "stopped": [], "spared": [], "synchronized": None}
    assert abs(clock.main()["now"] - time.time()) < 1


# --- Ports, and who holds them -------------------------------------------------------------------------------------


def test_a_port_of_a_written_sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a Spark's sysfs has: a ConnectX-7 with 16 lanes in a slot with four, of which two came up."""
    slot = tmp_path / "devices/0000:00:00.0"
    device = slot / "0000:01:00.0"
    device.mkdir(parents=True)
    for folder, width in ((slot, "4"), (device, "16")):
        (folder / "max_link_speed").write_text("32.0 GT/s PCIe\n")
        (folder / "max_link_width").write_text(f"{width}\n")
    (device / "current_link_speed").write_text("32.0 GT/s PCIe\n")
    (device / "current_link_width").write_text("2\n")
    netdev = tmp_path / "net/enp1s0f0np0"
    (netdev / "statistics").mkdir(parents=True)
    (netdev / "statistics/rx_crc_errors").write_text("7\n")
    (netdev / "speed").write_text("200000\n")
    (netdev / "device").symlink_to(device)
    (tmp_path / "net/enP2p1s0f0np0").mkdir()
    (tmp_path / "net/enP2p1s0f0np0/speed").write_text("10000\n")
    monkeypatch.setattr(links, "NET", tmp_path / "net")
    monkeypatch.setattr(links, "links", lambda: {"enp1s0f0np0": {}, "enP2p1s0f0np0": {}})
    monkeypatch.setattr(ports, "output", lambda *_: "driver: mlx5_core\nversion: 6\nfirmware-version: 28.45.4028 (X)\n")
    told = ports.main()
    assert told["enp1s0f0np0"] == {
        "mbit_s": 200_000,
        "pcie": {"gt_s": 32.0, "width": 2},
        "pcie_max": {"gt_s": 32.0, "width": 4},
        "firmware": "28.45.4028 (X)",
        "driver": "mlx5_core",
        "errors": 7,
    }
    # A virtual port says 10 Gbit/s, and means nothing by it.
    assert told["enP2p1s0f0np0"]["mbit_s"] is None and told["enP2p1s0f0np0"]["pcie"] is None


@pytest.mark.skipif(not shutil.which("ss"), reason="there is no ss")
def test_somebody_on_a_port_is_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (found,) = holders.main([port])["ports"]
        assert found["port"] == port and found["pid"] in ("", str(os.getpid()))
        assert holders.main([1])["ports"] == []


# --- RDMA ----------------------------------------------------------------------------------------------------------

PERFTEST = """\
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]    MsgRate[Mpps]
 65536      882805           0.00               92.57                0.176554
---------------------------------------------------------------------------------------
"""


def test_the_figure_of_ib_write_bw() -> None:
    assert rdma.average(PERFTEST) == 92.57 and rdma.average("Couldn't connect\n") == 0


@pytest.fixture
def perftest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A double of ib_write_bw that prints NVIDIA's example, and that it was bound to."""
    double = tmp_path / "ib_write_bw"
    double.write_text(f'#!/bin/sh\n[ "$1" = --help ] && echo "--bind_source_ip" || cat <<END\n{PERFTEST}END\n')
    double.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    yield double


def test_rdma_is_measured_where_the_tool_can_be_bound(perftest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rdma.measure("rocep1s0f0", "192.168.177.11", "192.168.177.12", 18515, 1) == {"gbit_s": 92.57}
    perftest.write_text("#!/bin/sh\necho usage\n")
    assert rdma.measure("rocep1s0f0", "192.168.177.11", "192.168.177.12", 18515, 1) == {"missing": True}
    assert rdma.serve("rocep1s0f0", "192.168.177.12", 18515, 1) == {"ready": False}


def test_a_client_that_comes_before_its_server_listens_tries_again(perftest: Path, tmp_path: Path) -> None:
    """The double refuses the first client, as ib_write_bw does while its server looks for the device."""
    seen = tmp_path / "came"
    refuses = f'[ "$1" = --help ] || [ -e {seen} ] || {{ touch {seen}; echo "Couldn\'t connect"; exit 1; }}\n'
    perftest.write_text(perftest.read_text().replace("#!/bin/sh\n", "#!/bin/sh\n" + refuses))
    assert rdma.measure("rocep1s0f0", "192.168.177.11", "192.168.177.12", 18515, 1) == {"gbit_s": 92.57}
    assert seen.exists()


def said_by_meet(folder: Path, rdma: list[bool]) -> str:
    """What a rank says where one lacks devices, and these of two are used."""
    shutil.copy(FILES / "engine/meet.py", folder)
    meeting = {"rdma": [{"device": "a"}, {"device": "b"}], "socket_interfaces": "=rail0"}
    asks = f"import meet; meet.variables({meeting}, meet.Network({rdma}, ['spark-2 (a is not up)']))"
    ran = subprocess.run([sys.executable, "-c", asks], cwd=folder, capture_output=True, text=True, check=True)
    return ran.stderr.strip()


BOTH = "NCCL_IB_HCA==rocep1s0f0,roceP2p1s0f0"
FOUND = "spark-1:9:9 [0] NCCL INFO NET/IB : Using"
#: What Ray puts before what another node's rank says, and what follows the names.
THERE = "(RayWorkerWrapper pid=9, ip=192.168.177.12)"
OOB = "[RO]; OOB enp1s0f0np0:192.168.177.11<0>"
#: Of an engine's environment and its log (a double of journalctl has it), and what is said of them.
NETWORKS: list[tuple[str, list[str], dict[str, list[str]]]] = [
    ("NCCL_IB_HCA==rocep1s0f0", ["IB", "IB"], {"tandem-engine": ["IB"]}),
    ("NCCL_IB_HCA==rocep1s0f0", ["IBext_v10", "Socket"], {"tandem-engine": ["IBext_v10", "Socket"]}),
    ("NCCL_IB_HCA==rocep1s0f0", [], {"tandem-engine": []}),
    ("NCCL_IB_HCA==rocep1s0f0", ["IB", networks.PART], {"tandem-engine": ["IB", "part"]}),
    # NCCL looks once more behind meet.py: a port that went down meanwhile is left out without a word.
    (BOTH, ["IB", f"{FOUND} [0]roceP2p1s0f0:1/RoCE {OOB}"], {"tandem-engine": ["IB", "part"]}),
    (BOTH, ["IB", f"{FOUND} [0]rocep1s0f0:1/RoCE [1]roceP2p1s0f0:1/RoCE {OOB}"], {"tandem-engine": ["IB"]}),
    (BOTH, ["Socket", f"{FOUND} {OOB}"], {"tandem-engine": ["Socket"]}),
    # With Ray the other node's rank says it in this log as well, of its own devices.
    (BOTH, ["IB", f"{THERE} {FOUND} [0]a:1/RoCE [1]b:1/RoCE {OOB}"], {"tandem-engine": ["IB"]}),
    (BOTH, ["IB", f"{THERE} {FOUND} [0]a:1/RoCE {OOB}"], {"tandem-engine": ["IB", "part"]}),
    ("NCCL_IB_DISABLE=1", ["Socket"], {}),
]


@pytest.mark.parametrize(("env", "said", "told"), NETWORKS)
def test_the_networks_that_nccl_has_named_are_those_of_this_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: str, said: list[str], told: dict[str, list[str]]
) -> None:
    (tmp_path / "engine.env").write_text(f"A=1\n{env}\n")
    network = "spark-1:9:9 [0] NCCL INFO Using network "
    lines = [each if " " in each else f"{network}{each}" for each in said if each != networks.PART]
    if networks.PART in said:
        lines.append(said_by_meet(tmp_path, [False, True]))
    (tmp_path / "log").write_text("".join(f"{line}\n" for line in [*lines, "it is serving"]))
    (tmp_path / "journalctl").write_text(
        f'#!/bin/sh\n[ "$1" = _SYSTEMD_INVOCATION_ID=abc ] && exec grep -E "${{2#--grep=}}" {tmp_path}/log\n'
    )
    (tmp_path / "journalctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(networks, "folder_of", lambda unit: str(tmp_path))
    monkeypatch.setattr(services, "engines", lambda: ["tandem-engine"])
    state = {"ActiveState": "active", "InvocationID": "abc"}
    monkeypatch.setattr(services, "unit_states", lambda units: dict.fromkeys(units, state))
    assert networks.main() == told
    state["ActiveState"] = "inactive"
    assert networks.main() == {}


def test_what_the_doctor_looks_for_is_what_a_start_is_judged_by(tmp_path: Path) -> None:
    part, none = said_by_meet(tmp_path, [False, True]), said_by_meet(tmp_path, [])
    assert networks.PART_SAYS in part and networks.PART_SAYS not in none
    assert all(nccl.LACKING.pattern in each for each in (part, none))
    assert nccl.BY_RDMA.startswith(networks.SAYS) and nccl.BY_SOCKETS.pattern == f"{networks.SAYS}Socket"
