"""Prometheus and Alertmanager on this node: their packages, whether they answer, and whether alarms find a way out."""

from __future__ import annotations

import re
import socket
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

from operations.node.commands import read

UNITS = ("tandem-prometheus", "tandem-alertmanager")
PROGRAMS = Path("/usr/bin")
UNIT_FILES = Path("/etc/systemd/system")
#: Where systemd has the data of a unit whose user is made for it.
KEPT = Path("/var/lib/private/tandem-prometheus")
#: Seconds for whoever receives alarms to take a connection.
CONNECT_S = 3.0


def main(units: Sequence[str], within_s: float = 2.0) -> dict[str, str]:
    """unit -> why it does not answer, empty: it does."""
    return {unit: problem(unit, within_s) for unit in units}


def missing(programs: Path = PROGRAMS) -> list[str]:
    """Packages that are not here; each has a program of its own name."""
    return [name for name in ("prometheus", "prometheus-alertmanager") if not (programs / name).exists()]


def kept(folder: Path = KEPT) -> int:
    """Bytes that Prometheus has on the disk."""
    sizes = 0
    for file in folder.rglob("*"):
        # It removes what is too old while it is counted.
        with suppress(OSError):
            sizes += file.stat().st_blocks * 512
    return sizes


def port_of(unit: str) -> int:
    """Where it listens on loopback, by the unit that lies here; 0: none does."""
    found = re.search(r"--web\.listen-address=127\.0\.0\.1:(\d+)", read(UNIT_FILES / f"{unit}.service"))
    return int(found[1]) if found else 0


def problem(unit: str, within_s: float) -> str:
    """Why it does not answer; empty: it does."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port_of(unit)}/-/ready", timeout=within_s):
            return ""
    except (OSError, HTTPException, ValueError) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__


def silent(receivers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Receivers that take no connection from here, each with why; nothing is sent to them."""
    with ThreadPoolExecutor() as pool:
        return [line for line in pool.map(_silence, receivers) if line]


def _silence(receiver: Mapping[str, Any]) -> str:
    try:
        socket.create_connection((receiver["host"], receiver["port"]), CONNECT_S).close()
    except (OSError, UnicodeError) as error:
        return f"{receiver['kind']} {receiver['to']}: {getattr(error, 'strerror', None) or error}"
    return ""
