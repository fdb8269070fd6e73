"""Two nodes on one cable, each with the two netdevs of a port, between namespaces (root)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from operations.plan.cluster.fabric import fabric_files, proof_ports
from operations.plan.cluster.nodes import Node
from tests.node.spaces import Space, wire
from tests.plan.samples import knobs

ROOT = Path(__file__).parents[2]
RAILS = ("enp1s0f0np0", "enP2p1s0f0np0")
PORTS = proof_ports(knobs())
PROGRAM = """
import json, sys
from pathlib import Path
from operations.node.network import owner_firewall, proof
owner_firewall.UFW, owner_firewall.OPEN = Path(sys.argv[3]), Path(sys.argv[4])
program = {"prove": proof.prove, "shut": owner_firewall.shut, "tries": owner_firewall.tries}[sys.argv[1]]
print(json.dumps(program(**json.loads(sys.argv[2]))))
"""
#: What the proof says where all is well.
FINE: dict[str, Any] = {"problems": [], "strangers": [], "silent": [], "shut": {}}


class Pair:
    """Two nodes on one cable: four netdevs on one L2."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cable, *self.nodes = (Space() for _ in range(3))
        self.planned = [
            Node(f"spark-{i + 1}", i, "10.0.0.1", "/root", rails=RAILS, subnets=knobs().rail_subnets) for i in (0, 1)
        ]
        self.cable.run("ip", "link", "add", "l2", "type", "bridge")
        self.cable.run("ip", "link", "set", "l2", "up")
        for space, node in zip(self.nodes, self.planned, strict=True):
            for half, (rail, address) in enumerate(zip(RAILS, node.rail_addresses, strict=True)):
                far = f"node{node.index}half{half}"
                wire(space, rail, self.cable, far)
                self.cable.run("ip", "link", "set", far, "master", "l2", "up")
                space.address(rail, f"{address}/24")

    def mac(self, number: int, half: int) -> str:
        found = json.loads(self.nodes[number].run("ip", "-j", "link", "show", RAILS[half]))
        return str(found[0]["address"])

    def set_arp(self) -> None:
        """What a deploy does with the file of the plan."""
        for space, node in zip(self.nodes, self.planned, strict=True):
            (sysctl,) = (file for file in fabric_files(knobs(), node) if "/sysctl.d/" in file.path)
            self.folder.joinpath("arp.conf").write_text(sysctl.content)
            space.run("/usr/lib/systemd/systemd-sysctl", str(self.folder / "arp.conf"))

    def looked_up(self, times: int) -> int:
        """How many look-ups of the other node's rails, by the kernel itself, end at the right netdev."""
        right = 0
        for _ in range(times):
            for half, address in enumerate(self.planned[1].rail_addresses):
                self.nodes[0].run("ip", "neigh", "flush", "all")
                assert self.nodes[0].run("ping", "-c", "1", "-W", "1", "-q", address)
                (entry,) = json.loads(self.nodes[0].run("ip", "-j", "neigh", "show", "to", address))
                right += entry["lladdr"] == self.mac(1, half)
        return right

    def prove(
        self, *, patience_s: float = 0, meanwhile: Callable[[], None] = lambda: None, late_s: float = 0
    ) -> list[Any]:
        """What both nodes say; `meanwhile`: what happens while they ask; `late_s`: after which the second one asks."""
        running = []
        for number in (0, 1):
            mine, other = self.planned[number], self.planned[1 - number]
            arguments: dict[str, Any] = {
                "peers": {other.name: [list(way) for way in mine.toward(other)]},
                "mtu": 1500,
                "own": dict(zip(RAILS, mine.rail_addresses, strict=True)),
                "macs": {address: self.mac(1 - number, half) for half, address in enumerate(other.rail_addresses)},
                "ports": PORTS,
                "patience_s": patience_s,
            }
            running.append(self.start(number, "prove", **arguments))
            time.sleep(late_s * (1 - number))
        meanwhile()
        return [json.loads(each.communicate(timeout=60)[0]) for each in running]

    def start(self, number: int, program: str, ufw: str = "/nowhere", **arguments: Any) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", PROGRAM, program, json.dumps(arguments), ufw, str(self.folder / "open")]
        return subprocess.Popen(self.nodes[number].argv(*argv), stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def close(self) -> None:
        for each in (*self.nodes, self.cable):
            each.close()
