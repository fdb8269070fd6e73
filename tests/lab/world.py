"""A lab without hosts, for tests: real interfaces that nobody outside sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.lab.settings import LINKS, LabNode
from tests.lab.shell import CONTAINED

ROOT = Path(__file__).parents[2]
NODES = [LabNode(index) for index in range(3)]
#: What `up` does, without hosts.
UP = """
from tests.lab import network, settings, watch
network.wire_up(settings.known_nodes())
watch.start()
"""


class World:
    """A lab without hosts: processes, interfaces and names that nobody outside sees, all gone when it ends."""

    def __init__(self, home: Path, wiring: str, count: int, machines: str = "namespaces") -> None:
        self.home, self.machines = home, machines
        for node in NODES[:count]:
            (home / "nodes" / node.name).mkdir(parents=True)
        self.wire(wiring)
        ready = "mount -t tmpfs tmpfs /run/netns && ip link set lo up && echo ready && exec sleep infinity"
        Path("/run/netns").mkdir(exist_ok=True)
        argv = [*CONTAINED, "--net", "sh", "-c", ready]
        self.holder = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout and self.holder.stdout.readline() == "ready\n"
        self.init = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text().strip()

    def wire(self, wiring: str) -> None:
        """What `up` was told."""
        told = {"wiring": wiring, "system": "debian12", "renderer": "networkd", "machines": self.machines}
        (self.home / "desk.json").write_text(json.dumps(told))

    def run(self, *words: str) -> str:
        """A command in there."""
        process = self.begin(*words)
        said, complaint = process.communicate()
        assert process.returncode == 0, complaint
        return said

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """The same, only begun."""
        argv = ["nsenter", f"--target={self.init}", "--mount", "--net", "--pid", *words]
        env = {**os.environ, "TANDEM_LAB_DIR": str(self.home), "PYTHONPATH": str(ROOT), "MACHINES": self.machines}
        return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def python(self, code: str) -> str:
        return self.run(sys.executable, "-c", code).strip()

    def lab(self, *words: str) -> None:
        """A verb of the lab."""
        self.run(sys.executable, "-m", "tests.lab", *words)

    def up(self) -> None:
        self.python(UP)

    def bring_up(self, node: LabNode, link: str, state: str = "up") -> None:
        """What a node's own system does with its interface."""
        self.run("ip", "-n", node.namespace, "link", "set", LINKS[link], state)

    def bring_all_up(self) -> None:
        for node in NODES:
            if (self.home / "nodes" / node.name).exists():
                for link in LINKS:
                    self.bring_up(node, link)

    def has(self, node: LabNode, link: str, flag: str) -> bool:
        found = json.loads(self.run("ip", "-n", node.namespace, "-j", "link", "show", LINKS[link]))
        return flag in found[0]["flags"]

    def received(self, node: LabNode, link: str) -> int:
        """Bytes."""
        found = json.loads(self.run("ip", "-n", node.namespace, "-j", "-s", "link", "show", LINKS[link]))
        return int(found[0]["stats64"]["rx"]["bytes"])

    def carriers(self, *ports: tuple[int, str]) -> list[bool]:
        return [self.has(NODES[index], link, "LOWER_UP") for index, link in ports]

    def come_to(self, wanted: list[bool], *ports: tuple[int, str]) -> None:
        """The watcher needs a moment."""
        deadline = time.monotonic() + 5
        while self.carriers(*ports) != wanted:
            assert time.monotonic() < deadline, f"{self.carriers(*ports)} instead of {wanted}"
            time.sleep(0.02)

    def watchers(self) -> list[int]:
        """Those of two looks: a child of one has its command line until it has become `ip`."""
        look = "from tests.lab import watch, processes; print(processes.matching(watch._is_it))"
        first, second = (set(json.loads(self.python(look))) for _ in range(2))
        return sorted(first & second)

    def end(self) -> None:
        self.holder.kill()
        self.holder.wait()
