"""A node with two rails, an office network and a container of its owner's; a host in the office that has set a route to
the fabric through the node; another node at the other end of a rail. The listeners are real, on all addresses as
vLLM and Ray have theirs; systemd has no part in this.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from operations.paths import FIREWALL, SLICE
from tests.node.spaces import Place, Space, wire
from tests.plan.samples import plan

NEEDS = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("nft"), reason="namespaces want root, and nft (apt install nftables)"
)

#: Addresses of the node: in the office, on the fabric, of its other node there.
OFFICE, OFFICE_6, FABRIC, PEER = "10.99.0.11", "fd00:99::11", "192.168.177.11", "192.168.177.12"
GROUP = f"firewall-test-{os.getpid()}.slice"
#: What vLLM, Ray and torch open where they like, and what a plan gives out.
STRAY: list[Place] = [("tcp", "0.0.0.0", 39983), ("tcp", "::", 39983), ("udp", "0.0.0.0", 39984), ("udp", "::", 39984)]
PLANNED: list[Place] = [("tcp", "0.0.0.0", 26001), ("tcp", "::", 26001), ("tcp", FABRIC, 8001)]
#: The owner's: on ports that an engine could have chosen as well, and ssh.
OWN: list[Place] = [(kind, each, 40123) for kind in ("tcp", "udp") for each in ("0.0.0.0", "::")]
SSH: list[Place] = [("tcp", "0.0.0.0", 22), ("tcp", "::", 22)]
PROXY: list[Place] = [("tcp", "0.0.0.0", 8000)]

#: What Docker and an owner have beside: a published port of a container, and a port that the owner has shut himself.
OTHERS = """
table ip nat {
    chain PREROUTING { type nat hook prerouting priority dstnat; tcp dport 8080 dnat to 172.30.0.2:80; }
    chain POSTROUTING { type nat hook postrouting priority srcnat; ip saddr 172.30.0.0/24 masquerade; }
}
table inet owner {
    chain input { type filter hook input priority filter; policy accept; tcp dport 40999 drop; }
}
"""

#: For a mount namespace: cgroup v2 lies where nft looks for it, as on a node.
MOUNT = (
    "mount --make-rprivate / && { [ -e /sys/fs/cgroup/cgroup.controllers ] || mount -t cgroup2 none /sys/fs/cgroup; }"
)


class Site:
    """The node and those around it; `firewall`: the folder of its rules."""

    def __init__(self, folder: Path, group: Path) -> None:
        self.node, self.office, self.peer, self.container = Space(), Space(), Space(), Space()
        self.firewall, self.group = folder, group

    def build(self) -> None:
        wire(self.node, "office", self.office, "eth0")
        wire(self.node, "enp1s0f0np0", self.peer, "enp1s0f0np0")
        wire(self.node, "docker0", self.container, "eth0")
        self.node.address("office", f"{OFFICE}/24", f"{OFFICE_6}/64")
        self.node.address("enp1s0f0np0", f"{FABRIC}/24")
        self.node.address("docker0", "172.30.0.1/24")
        self.office.address("eth0", "10.99.0.1/24", "fd00:99::1/64")
        self.peer.address("enp1s0f0np0", f"{PEER}/24")
        self.container.address("eth0", "172.30.0.2/24")
        self.node.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        # The host that has set a route; and the ways back.
        self.office.run("ip", "route", "add", "192.168.177.0/24", "via", OFFICE)
        self.peer.run("ip", "route", "add", "10.99.0.0/24", "via", FABRIC)
        self.container.run("ip", "route", "add", "default", "via", "172.30.0.1")
        subprocess.run(self.node.argv("nft", "--file", "-"), input=OTHERS, text=True, check=True)
        self.node.listen(*STRAY, group=self.group)
        # Of no group: the ports alone say what they are.
        self.node.listen(*PLANNED)
        self.node.listen(*OWN, *SSH, *PROXY, ("tcp", "0.0.0.0", 40999))
        self.container.listen(("tcp", "0.0.0.0", 80))
        self.peer.listen(("tcp", "0.0.0.0", 8001), ("tcp", "0.0.0.0", 22))
        self.office.listen(("tcp", "0.0.0.0", 80))

    def sh(self, action: str, check: bool = True) -> str:
        """`firewall.sh` on the node."""
        script = f"{MOUNT} && exec {self.firewall}/firewall.sh {action}"
        argv = ["unshare", "--mount", *self.node.argv("sh", "-c", script)]
        environment = {**os.environ, "TANDEM_RUN": str(self.firewall / "run")}
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def render(self, **knobs: str) -> None:
        """The files of the head's firewall, as the plan has them, for a control group of this test's own."""
        wanted: dict[str, Any] = {"topology": "cluster", "executor": "mp", **knobs}
        program = plan(**wanted).head.services[FIREWALL]
        assert program
        for file in program.files:
            path = self.firewall / Path(file.path).name
            path.write_text(file.content.replace(SLICE, GROUP))
            path.chmod(int(file.mode, 8))

    def reach(self, places: list[Place], via: str, via_6: str = "") -> set[Place]:
        """Those that answer to the office at these addresses of the node."""
        asked = [(kind, (via_6 if ":" in each else via), port) for kind, each, port in places]
        told = self.office.ask([each for each in asked if each[1]])
        return {place for place, each in zip(places, asked, strict=True) if told.get(each) == "hello"}


def unified() -> Path:
    """Where this machine has cgroup v2."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    found = [Path(each[1]) for each in mounts if each[2] == "cgroup2"]
    if not found:
        pytest.skip("this machine has no cgroup v2")
    return found[0]


@contextmanager
def built(folder: Path) -> Iterator[Site]:
    group = unified() / GROUP
    # As Docker puts it: a group for the container below.
    (group / "docker-1.scope").mkdir(parents=True)
    with ExitStack() as stack:
        stack.callback(lambda: (group / "docker-1.scope").rmdir() or group.rmdir())  # type: ignore[func-returns-value]
        site = Site(folder, group / "docker-1.scope")
        for space in (site.node, site.office, site.peer, site.container):
            stack.callback(space.close)
        site.build()
        yield site
