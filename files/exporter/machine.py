"""Memory, disks, rails and GPU of this node. What nvidia-smi says `[N/A]` to is left out: on a GB10 that is memory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from background_call import BackgroundCall
from text import Sample

NET = Path("/sys/class/net")
MEMINFO = Path("/proc/meminfo")
#: Seconds for nvidia-smi, between two questions to it, and until the next one where it has failed.
SMI_S, SMI_PAUSE_S, SMI_FAILED_S = 5.0, 10.0, 60.0
#: Seconds for which a scrape waits for it: it needs a tenth of one.
SMI_WAIT_S = 2.0
#: What nvidia-smi is asked -> our name, what it means, and the factor to base units.
GPU = {
    "clocks.sm": ("gpu_clock_hertz", "Clock of the GPU's cores.", 1e6),
    "power.draw": ("gpu_power_watts", "Power that the GPU draws.", 1.0),
    "temperature.gpu": ("gpu_temperature_celsius", "Temperature of the GPU.", 1.0),
    "utilization.gpu": ("gpu_busy_ratio", "Share of time in which the GPU computes.", 0.01),
}
#: A file of a netdev -> our name, and what it means.
LINK = {
    "carrier": ("rail_carrier", "Whether a rail has a carrier."),
    "mtu": ("rail_mtu_bytes", "MTU of a rail."),
    "statistics/rx_bytes": ("rail_receive_bytes_total", "Bytes that came in."),
    "statistics/tx_bytes": ("rail_transmit_bytes_total", "Bytes that went out."),
    "statistics/rx_errors": ("rail_receive_errors_total", "Frames that came in broken."),
    "statistics/tx_errors": ("rail_transmit_errors_total", "Frames that could not be sent."),
}


def memory(floor_mib: float) -> Iterator[Sample]:
    """From /proc/meminfo, which is the truth on unified memory; and the guard's floor."""
    said = dict(re.findall(r"^(\w+):\s+(\d+) kB", MEMINFO.read_text(), re.MULTILINE))
    for key, name, text in (
        ("MemTotal", "memory_bytes", "Memory of the node."),
        ("MemAvailable", "memory_available_bytes", "Memory that is to be had."),
    ):
        if key in said:
            yield Sample(name, text, float(said[key]) * 1024)
    yield Sample("memory_floor_bytes", "Available memory below which the guard kills the engine.", floor_mib * 2**20)
    if "SwapTotal" in said and "SwapFree" in said:
        used = float(int(said["SwapTotal"]) - int(said["SwapFree"])) * 1024
        yield Sample("swap_used_bytes", "Swap that is in use.", used)


def disks(places: list[str]) -> Iterator[Sample]:
    """Once a file system, under the first path that lies on it."""
    known = set()
    for place in places:
        if not Path(place).exists() or (device := os.stat(place).st_dev) in known:
            continue
        known.add(device)
        state = os.statvfs(place)
        yield Sample("disk_bytes", "Size of a disk.", float(state.f_blocks * state.f_frsize), {"path": place})
        yield Sample("disk_free_bytes", "Room on a disk.", float(state.f_bavail * state.f_frsize), {"path": place})


def rails(devices: list[str]) -> Iterator[Sample]:
    """What the kernel says of each. A device that is down has no carrier, and does not say so."""
    for device in devices:
        labels = {"device": device}
        for file, (name, text) in LINK.items():
            try:
                value = float((NET / device / file).read_text())
            except (OSError, ValueError):
                if file != "carrier":
                    continue
                value = 0.0
            yield Sample(name, text, value, labels)
        try:
            speed = int((NET / device / "speed").read_text())
        except (OSError, ValueError):
            continue
        # Without a carrier it says -1.
        if speed > 0:
            yield Sample("rail_speed_bits", "Bits a second that a rail has negotiated.", speed * 1e6, labels)


class Smi:
    """nvidia-smi. Asked seldom: each question costs the driver a tenth of a second, and a driver that hangs makes one
    that not even a kill ends. So at most one is asked at a time, and a failure is remembered.
    """

    def __init__(self) -> None:
        self._asked = BackgroundCall(lambda: _asked())
        self._lock = threading.Lock()
        self._next = 0.0
        self._is_asked = False
        #: None: nothing is known yet.
        self._answers: bool | None = None
        self._found: list[Sample] = []

    def samples(self) -> Iterator[Sample]:
        """What it said last, and whether it answers; nothing where there is none."""
        if not shutil.which("nvidia-smi"):
            return
        with self._lock:
            self._look()
            answers, found = self._answers, self._found
        if answers is not None:
            yield Sample("gpu_answers", "Whether nvidia-smi says anything.", float(answers))
            yield from found

    def _look(self) -> None:
        if not self._is_asked:
            if time.monotonic() < self._next:
                return
            self._asked.begin()
            self._is_asked = True
            until = time.monotonic() + SMI_WAIT_S
        else:
            until = 0.0
        try:
            self._found = self._asked.answer(until)
            self._answers, self._next = True, time.monotonic() + SMI_PAUSE_S
        except (OSError, ValueError, subprocess.SubprocessError):
            if self._asked.is_under_way:
                if time.monotonic() - self._asked.began > SMI_S:
                    self._answers, self._found = False, []
                return
            self._answers, self._found = False, []
            self._next = time.monotonic() + SMI_FAILED_S
        self._is_asked = False


def _asked() -> list[Sample]:
    found = []
    argv = ["nvidia-smi", f"--query-gpu=index,{','.join(GPU)}", "--format=csv,noheader,nounits"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=SMI_S, check=True).stdout
    for line in said.splitlines():
        index, *values = (word.strip() for word in line.split(","))
        for (name, text, factor), value in zip(GPU.values(), values, strict=True):
            if re.fullmatch(r"-?\d+(\.\d+)?", value):
                found.append(Sample(name, text, float(value) * factor, {"gpu": index}))
    return found
