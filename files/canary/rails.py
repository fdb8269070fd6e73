"""The rails and the nodes behind them: MTU, address and carrier can be lost at run time, a node can go away."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING

import node

if TYPE_CHECKING:
    from operations.wire.specs import Rail

NET = Path("/sys/class/net")


class Rails:
    """What the last look has found; cheap enough for one a second."""

    def __init__(self, rails: dict[str, Rail], peers: dict[str, str], net: Path = NET) -> None:
        self.rails, self.peers, self.net = rails, peers, net
        #: What the rails lack, in words.
        self.problems: list[str] = []
        #: Nodes with a rank of the engine that do not answer, with the time since when.
        self.away: dict[str, str] = {}
        self.found: dict[str, list[str]] = {}

    def look(self) -> None:
        """Look once, and say what is new."""
        found = addresses()
        problems = [each for device in self.rails for each in rail_problems(self.rails, device, self.net, found)]
        for problem in problems:
            if problem not in self.problems:
                node.say(f"{problem}; `tandem apply` mends what is Tandem's")
        silent = silent_nodes(self.peers)
        for name in silent:
            if name not in self.away:
                node.say(f"{name} does not answer over the rail at {self.peers[name]}")
        now = time.strftime("%F %T")
        self.away = {name: self.away.get(name, now) for name in silent}
        self.found, self.problems = found, problems

    def lost(self, url: str) -> str:
        """Why the address of `url`, which is this node's, is not to be reached; empty: it is.

        A node reaches its own addresses without a carrier, and by the firewall's routes without their netdevs; an
        address of another node is no matter of these rails.
        """
        wanted = urllib.parse.urlsplit(url).hostname
        for device, rail in self.rails.items():
            if wanted != rail["address"].partition("/")[0] or rail["address"] in self.found.get(device, []):
                continue
            if not is_own(wanted):
                problems = rail_problems(self.rails, device, self.net, self.found)
                return "; ".join(each for each in problems if "has MTU" not in each)
        return ""


def addresses() -> dict[str, list[str]]:
    """IPv4 addresses with their prefix, by device."""
    done = node.run(["ip", "-json", "-4", "address"])
    return {
        each["ifname"]: [f"{info['local']}/{info['prefixlen']}" for info in each["addr_info"]]
        for each in json.loads((done.stdout if done else "") or "[]")
        if "ifname" in each
    }


def is_own(address: str) -> bool:
    """Whether the kernel takes an address for this node's: who listens on it is reached from here."""
    with socket.socket() as trial:
        try:
            trial.bind((address, 0))
        except OSError:
            return False
    return True


def rail_problems(rails: dict[str, Rail], device: str, net: Path, found: dict[str, list[str]]) -> list[str]:
    """What a rail lacks, in words."""
    rail = rails[device]
    try:
        mtu = (net / device / "mtu").read_text().strip()
    except OSError:
        # A ConnectX-7 may take its netdevs along when its cable is pulled.
        return [f"the interface {device} is gone: plug the cable in at both ends"]
    problems = []
    try:
        carrier = (net / device / "carrier").read_text().strip() == "1"
    except OSError:
        # A device that is down says nothing.
        carrier = False
    if not carrier:
        problems.append(f"the rail {device} has no carrier: is its cable in, is the other node on?")
    if mtu != str(rail["mtu"]):
        problems.append(f"the rail {device} has MTU {mtu}, not {rail['mtu']}")
    if rail["address"] not in found.get(device, []):
        problems.append(f"the rail {device} has not its address {rail['address']}")
    return problems


def silent_nodes(peers: dict[str, str]) -> list[str]:
    """Those that do not answer a ping, all asked at once. Without ping nothing is known of them: none."""
    asked = {}
    for name, address in peers.items():
        argv = ["ping", "-q", "-c", "1", "-W", "1", address]
        try:
            asked[name] = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError:
            return []
    return [name for name, ping in asked.items() if not _answers(ping)]


def _answers(ping: subprocess.Popen[bytes]) -> bool:
    try:
        return ping.wait(timeout=node.WORD_S) == 0
    except subprocess.TimeoutExpired:
        ping.kill()
        ping.wait()
        return False
