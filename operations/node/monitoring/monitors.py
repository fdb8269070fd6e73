"""Prometheus and Alertmanager on this node: their packages, whether they answer, and whether alarms find a way out."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

from operations.node.commands import read
from operations.paths import ALERTMANAGER, PROMETHEUS, SYSTEMD, VAR
from operations.wire.unit import Receiver

UNITS = (PROMETHEUS, ALERTMANAGER)
PROGRAMS = Path("/usr/bin")
UNIT_FILES = Path(SYSTEMD)
#: Where systemd has the data of a unit whose user is made for it.
KEPT = Path("/var/lib/private") / PROMETHEUS
#: Seconds for whoever receives alarms to take a connection, and for all of it, the word of a name server included.
CONNECT_S, HEARD_S = 3.0, 6.0
#: Packages that apt could not get, written by files/monitoring/install.sh; and seconds for which it is not asked again.
REFUSED = Path(VAR) / "no-packages"
REFUSED_S = 86400.0
#: The node's own way, whatever the environment says of proxies.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def main(units: Sequence[str], within_s: float = 2.0) -> dict[str, str]:
    """unit -> why it does not answer, empty: it does."""
    return {unit: problem(unit, within_s) for unit in units}


def missing(programs: Path = PROGRAMS) -> list[str]:
    """Packages that are not here; each has a program of its own name."""
    return [name for name in ("prometheus", "prometheus-alertmanager") if not (programs / name).exists()]


def refused(programs: Path = PROGRAMS) -> bool:
    """Whether apt was asked within a day for all that is missing, and gave none of it."""
    try:
        age = time.time() - REFUSED.stat().st_mtime
    except OSError:
        return False
    return 0 <= age < REFUSED_S and {*missing(programs)} <= {*read(REFUSED).split()}


def kept(folder: Path = KEPT) -> int:
    """Bytes that Prometheus has on the disk."""
    sizes = 0
    # It removes what is too old while it is counted: os.walk passes over a folder that is gone.
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                sizes += os.lstat(os.path.join(place, name)).st_blocks * 512
    return sizes


def address_of(unit: str) -> str:
    """`address:port` where it listens, by the unit that lies here; empty: none does."""
    found = re.search(r"--web\.listen-address=(\S+:\d+)", read(UNIT_FILES / f"{unit}.service"))
    return found[1] if found else ""


def problem(unit: str, within_s: float) -> str:
    """Why it does not answer; empty: it does."""
    if not (address := address_of(unit)):
        return "its unit is not here"
    try:
        with OPENER.open(f"http://{address}/-/ready", timeout=within_s):
            return ""
    except (OSError, HTTPException, ValueError) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__


def silent(receivers: Sequence[Receiver]) -> list[str]:
    """Receivers that take no connection from here, each with why; nothing is sent to them.

    A name server that says nothing keeps who asks it for a minute, and can't be hurried: it is left behind.
    """
    found = {number: f"{each['kind']} {each['to']}: no answer in time" for number, each in enumerate(receivers)}

    def hear(number: int) -> None:
        found[number] = _silence(receivers[number])

    threads = [threading.Thread(target=hear, args=(number,), daemon=True) for number in found]
    for thread in threads:
        thread.start()
    until = time.monotonic() + HEARD_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return [line for _, line in sorted(found.items()) if line]


def _silence(receiver: Receiver) -> str:
    try:
        socket.create_connection((receiver["host"], receiver["port"]), CONNECT_S).close()
    except (OSError, UnicodeError) as error:
        return f"{receiver['kind']} {receiver['to']}: {getattr(error, 'strerror', None) or error}"
    return ""
