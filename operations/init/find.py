"""Sparks that can be found: by multicast DNS, by Avahi where it is, and at the other end of the QSFP cable."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from operations.init import mdns
from operations.init.login import Login
from operations.init.mdns import Heard, NoNetwork
from operations.node.network.links import NET, PORT_NAME
from operations.plan.absence import LOCAL_NETWORK

#: What vendors call a GB10 machine as it comes: NVIDIA, ASUS, Dell, HP, Lenovo, MSI, Acer, Gigabyte.
NAMED = re.compile(r"(spark|dgx|gx10|gb10|promax|zgx|pgx|edgexpert|gn100|atom)", re.I)
#: Seconds for a program that asks others.
ASK_S = 4


def found() -> tuple[list[Heard], str]:
    """Hosts with a name like a Spark's, this machine first where it is one; and in words why there may be none."""
    own = rails()
    mine = [Heard(f"{socket.gethostname().partition('.')[0]}.local")] if own else []
    note = ""
    try:
        heard = [*mdns.hear(), *avahi()]
    except NoNetwork as no:
        heard, note = [], f"nobody can be asked: this machine has no network ({no})"
        if sys.platform == "darwin":
            note += f"; {LOCAL_NETWORK}"
    here = {each.name for each in mine}
    sparks = {each.name: each for each in heard if NAMED.search(each.name) and each.name not in here}
    others = len({each.name for each in heard} - set(sparks) - here)
    if not sparks and not note:
        seen = f"{others} other host{'s answer' if others != 1 else ' answers'}" if others else "nobody answers"
        note = f"no Spark is found by mDNS ({seen}): it is off, asleep, on another network, or has another name"
    ends = [] if sparks else [Heard(address, address) for device in own for address in neighbours(device)]
    return [*mine, *sparks.values(), *ends], note


def rails(folder: Path = NET) -> list[str]:
    """This machine's own QSFP netdevs: it is a Spark where it has some."""
    if not folder.is_dir():
        return []
    return sorted(each.name for each in folder.iterdir() if PORT_NAME.match(each.name))


def avahi() -> Iterator[Heard]:
    """What Avahi knows of hosts with ssh, where its program is: it also asks on networks that are not the first."""
    if not shutil.which("avahi-browse"):
        return
    ran = _ask(["avahi-browse", "-rptk", "_ssh._tcp"])
    for line in ran.splitlines():
        words = line.split(";")
        if words[0] == "=" and len(words) > 7 and words[2] == "IPv4" and mdns.is_name(words[6].lower()):
            yield Heard(words[6].lower(), words[7])


def neighbours(device: str) -> Iterable[str]:
    """Link-local IPv6 addresses at the other end of a cable (`fe80::1%enp1s0f0np0`), which every port has by itself."""
    _ask(["ping", "-6", "-c", "2", "-i", "0.3", "-W", "1", f"ff02::1%{device}"])
    lines = _ask(["ip", "-6", "neigh", "show", "dev", device]).splitlines()
    return [f"{line.split()[0]}%{device}" for line in lines if line.startswith("fe80") and "FAILED" not in line]


def _ask(argv: list[str]) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=ASK_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def addressed(logins: Sequence[Login], heard: Iterable[Heard] = ()) -> list[Login]:
    """With the address that mDNS knows where this machine itself can't make one of a name ending in .local: Linux
    without Avahi can't. `heard`: who has answered already.
    """
    lost = {each.name for each in logins if each.host.endswith(".local") and not address_of(each.host)}
    if lost and not {each.name for each in heard} & lost:
        try:
            heard = mdns.hear()
        except NoNetwork:
            heard = []
    addresses = {each.name: each.address for each in heard}
    return [
        replace(each, address=addresses.get(each.name.lower(), "")) if each.name in lost else each for each in logins
    ]


def address_of(name: str) -> str:
    """The first address that this machine itself makes of a name; empty where it makes none."""
    try:
        return str(socket.getaddrinfo(name, None, proto=socket.IPPROTO_TCP)[0][4][0])
    # A label that is too long for DNS is a UnicodeError.
    except (OSError, UnicodeError):
        return ""
