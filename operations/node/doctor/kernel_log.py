"""What the kernel has said of the GPU, of PCIe, of disks and of processes that it killed."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Iterable

from operations.wire.doctor import KernelEvent, KernelLog

#: How far back.
SINCE = "-24 hours"
#: Seconds for reading it.
PATIENCE_S = 30.0
#: Kind -> what a line of it looks like, and what of it names the case.
PATTERNS = {
    "xid": re.compile(r"NVRM: Xid \([^)]*\): (\d+)"),
    "no_gpu_memory": re.compile(r"NVRM: .*(NV_ERR_NO_MEMORY)"),
    "aer": re.compile(r"PCIe Bus Error: severity=(Corrected|Uncorrect\w+ \([\w-]+\))"),
    "oom": re.compile(r"[Oo]ut of memory: Killed process \d+ \(([^)]*)\)"),
    # What a file system says at the boot after.
    "power_off": re.compile(r"((?:EXT4-fs|XFS) \([\w-]+\)): (?:recovery complete|Ending recovery)"),
    "disk": re.compile(r"(nvme\w+(?=: (?:I/O .*timeout|controller is down))|I/O error, dev \w+|EXT4-fs error)"),
}


def main() -> KernelLog:
    """`readable`: the journal has words of the kernel; `events`: [{kind, case, count, last}], `last` is a line;
    `cut`: there was more than can be read in PATIENCE_S.
    """
    argv = ["journalctl", "_TRANSPORT=kernel", f"--since={SINCE}", "--no-pager", "--quiet", "--output=short-iso"]
    try:
        with subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
        ) as log:
            assert log.stdout is not None
            patience = threading.Timer(PATIENCE_S, log.kill)
            patience.start()
            count, events = parse(log.stdout)
            patience.cancel()
        cut = log.returncode == -signal.SIGKILL
    except OSError:
        count, events, cut = 0, [], False
    return {"readable": count > 0 or _has_any(), "events": events, "cut": cut}


def _has_any() -> bool:
    """A quiet kernel is no missing one."""
    argv = ["journalctl", "_TRANSPORT=kernel", "--lines=1", "--no-pager", "--quiet", "--output=cat"]
    try:
        return bool(subprocess.run(argv, capture_output=True, check=False, timeout=10).stdout.strip())
    except (OSError, subprocess.TimeoutExpired):
        return False


def parse(lines: Iterable[str]) -> tuple[int, list[KernelEvent]]:
    """How many lines there were, and the events in them."""
    number = 0
    found: dict[tuple[str, str], KernelEvent] = {}
    for line in lines:
        number += 1
        for kind, pattern in PATTERNS.items():
            if match := pattern.search(line):
                event = found.setdefault((kind, match[1]), {"kind": kind, "case": match[1], "count": 0, "last": ""})
                event["count"] += 1
                event["last"] = line.strip()[:300]
    return number, list(found.values())
