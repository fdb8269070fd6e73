"""How much a rail carries by RDMA: perftest's ib_write_bw, where it is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time

from operations.node import beats
from operations.node.commands import output
from operations.wire.doctor import Rdma

TOOL = "ib_write_bw"
#: Seconds that one try may take besides its own time.
GRACE_S = 6
#: Seconds before the second try of a client that came before its server listened.
PAUSE_S = 1.0


def _argv(device: str, own: str, port: int, seconds: int) -> list[str] | None:
    """The command, bound to the rail's own address; None: no tool, or one that would listen on every address."""
    if not shutil.which(TOOL):
        return None
    usage = subprocess.run([TOOL, "--help"], capture_output=True, text=True, check=False)
    if "--bind_source_ip" not in usage.stdout + usage.stderr:
        return None
    argv = [TOOL, "-d", device, "-p", str(port), "-D", str(seconds), "-F", "--report_gbits"]
    return [*argv, "--bind_source_ip", own]


def serve(device: str, address: str, port: int, seconds: int) -> Rdma:
    """Print {"ready": true} and serve one client, bound to `address`; {"ready": false} without the tool."""
    argv = _argv(device, address, port, seconds)
    if argv is None:
        return {"ready": False}
    # It takes one connection and ends; the tether ends it sooner.
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        beats.watch(server.kill)
        print(json.dumps({"ready": True}), flush=True)
        try:
            server.wait(timeout=2 * (seconds + GRACE_S) + PAUSE_S + GRACE_S)
        except subprocess.TimeoutExpired:
            server.kill()
    return {}


def measure(device: str, own: str, address: str, port: int, seconds: int) -> Rdma:
    """{gbit_s}; {"missing": true} without the tool; {"problem": ...}."""
    argv = _argv(device, own, port, seconds)
    if argv is None:
        return {"missing": True}
    speed = average(output(*argv, address, timeout_s=seconds + GRACE_S))
    if not speed:
        # The server says that it was started; it listens a moment later, when it has found its device.
        time.sleep(PAUSE_S)
        speed = average(output(*argv, address, timeout_s=seconds + GRACE_S))
    return {"gbit_s": speed} if speed else {"problem": f"{TOOL} gave no figure"}


def average(text: str) -> float:
    """The column `BW average[Gb/sec]` of the last line of figures; 0: there is none."""
    rows = re.findall(r"^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$", text, re.MULTILINE)
    return float(rows[-1]) if rows else 0.0
