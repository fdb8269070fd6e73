"""Two nodes on one network with the real keepalived, as a deploy renders it and with what its container may do, and a
client that asks at their address without a pause (root).
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from operations.paths import ADDRESS, FIREWALL, OFFICE, OFFICE_KNOWN, OFFICE_RUN, SOCKETS, folder_of
from operations.plan.recipes.formats import load_recipe
from tests.node.spaces import Space, wire
from tests.plan.samples import ROOT, knobs, make_plan, nodes
from tests.support.waiting import until

WANTED, PORT, DEVICE = "10.0.0.50", 8000, "enP7s7"
#: A double of the proxy, which says whose it is.
PROXY = """
import os, select, socket, sys
# Where clients are, and where its own node asks.
os.makedirs(os.path.dirname(sys.argv[2]), exist_ok=True)
if os.path.exists(sys.argv[2]):
    os.remove(sys.argv[2])
own = socket.socket(socket.AF_UNIX)
own.bind(sys.argv[2])
own.listen()
servers = [socket.create_server(("0.0.0.0", 8000)), own]
streams = []
while True:
    for server in select.select(servers, [], [], 0.2)[0]:
        guest = server.accept()[0]
        guest.settimeout(1)
        try:
            asked = guest.recv(999)
            guest.send(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + sys.argv[1].encode())
        except OSError:
            asked = b""
        if b"/stream" in asked:
            guest.setblocking(False)
            streams.append(guest)
        else:
            guest.close()
    for each in streams:
        try:
            each.send(b".")
        except OSError:
            pass
"""
#: Asks in a loop: a line for each answer.
CLIENT = """
import socket, time
while True:
    try:
        with socket.create_connection(("10.0.0.50", 8000), 0.5) as way:
            way.settimeout(0.5)
            way.send(b"GET / HTTP/1.0\\r\\n\\r\\n")
            said = b"".join(iter(lambda: way.recv(999), b""))
            print(said.decode().split()[-1], flush=True)
    except OSError:
        pass
    time.sleep(0.05)
"""
#: Waits for what comes over as many streams, for ever: a line with the time at which each has ended, and how.
STREAMS = """
import socket, sys, threading, time
def stream():
    while True:
        try:
            way = socket.create_connection(("10.0.0.50", 8000), 1)
            break
        except OSError:
            time.sleep(0.1)
    way.settimeout(None)
    way.send(b"GET /stream HTTP/1.0\\r\\n\\r\\n")
    way.recv(999)
    tell("begun")
    how = "over"
    try:
        while way.recv(999):
            pass
    except OSError as error:
        how = type(error).__name__
    tell(f"{time.monotonic()} {how}")
def tell(line):
    # In one piece: they are threads.
    sys.stdout.write(line + "\\n")
    sys.stdout.flush()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=stream).start()
"""
_HEAR = "import json,sys; from operations.node.network import claimed; print(json.dumps(claimed.main(*sys.argv[1:])))"
#: Nothing to write to but a /tmp of its own, and then no more than the container has.
CONTAINED = (
    "mount -t tmpfs -o nosuid,nodev,noexec none /tmp && mount --bind /run /run && mount -o remount,bind,ro /run"
    " && mount -o remount,bind,ro / && export PATH=/usr/sbin:/usr/bin:/sbin:/bin"
    " && exec setpriv --bounding-set {} --no-new-privs {}/start.sh"
)


def hear(where: Space, address: str, device: str = DEVICE) -> dict[str, Any]:
    """What a node is told of an address, and of VRRP, before it takes it."""
    argv = ("env", f"PYTHONPATH={ROOT}", sys.executable, "-c", _HEAR, address, device)
    told: dict[str, Any] = json.loads(where.run(*argv))
    return told


class Host:
    """A node: its namespace, its proxy and its keepalived."""

    def __init__(self, client: Space, index: int, folder: Path, topology: str = "replicas") -> None:
        self.name, self.space, self.folder = "ab"[index], Space(), folder / "ab"[index]
        self.folder.mkdir()
        wire(client, f"to-{self.name}", self.space, DEVICE)
        client.run("ip", "link", "set", f"to-{self.name}", "master", "br0", "up")
        self.own = f"10.0.0.{11 + index}"
        self.space.address(DEVICE, f"{self.own}/24")
        wanted = knobs(topology=topology, proxy_bind="all", proxy_address=WANTED)
        # Here is no control group for the firewall to know an engine by.
        both = [replace(each, engine_group="") for each in nodes(2, wanted)]
        mine = make_plan(load_recipe(wanted.recipe), wanted, both).nodes[index]
        rules = (each for each in mine.services[FIREWALL].files if each.path.endswith(".nft"))
        for file in (*mine.container(ADDRESS).files, *mine.services[OFFICE].files, *rules):
            path = self.folder / Path(file.path).name
            path.write_text(self.here(file.content))
            path.chmod(int(file.mode, 8))
        allowed = re.findall(r"--cap-add (\w+)", (self.folder / "run.sh").read_text())
        self._may = ",".join(["-all", *(f"+{each.lower()}" for each in allowed)])
        # It runs no script that others could write.
        os.chmod(folder, 0o755)
        self.knows(*(f"{each.name}={each.management}" for each in both if each.index != index))
        self.proxy = self.start_proxy()
        self.kept = self.start()

    def here(self, text: str) -> str:
        """With its folders in the place of a node's."""
        own = {
            SOCKETS: f"{self.folder}/sockets",
            OFFICE_RUN: f"{self.folder}/run",
            OFFICE_KNOWN: f"{self.folder}/known.json",
        }
        own |= {folder_of(unit): str(self.folder) for unit in (ADDRESS, OFFICE)}
        # Those in the container.
        own |= {"/office/": f"{self.folder}/run/", "/tandem/": f"{self.folder}/"}
        return re.sub("|".join(own), lambda found: own[found[0]], text)

    def knows(self, *others: str) -> None:
        """What a deploy says of the other nodes: NAME=ADDRESS."""
        self.space.run(sys.executable, str(self.folder / "office.py"), "know", *others)

    def start_proxy(self) -> subprocess.Popen[bytes]:
        asked = f"{self.folder}/sockets/proxy.sock"
        return subprocess.Popen(self.space.argv(sys.executable, "-c", PROXY, self.name, asked))

    def start(self) -> subprocess.Popen[bytes]:
        """What the unit does: the node's part, then the start script."""
        self.space.run(str(self.folder / "ready.sh"), "spec")
        argv = self.space.argv("unshare", "--mount", "sh", "-c", CONTAINED.format(self._may, self.folder))
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def send(self, sig: signal.Signals) -> None:
        """To keepalived, its child and its scripts at once."""
        os.killpg(self.kept.pid, sig)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.kept.wait()

    def has_it(self) -> bool:
        return WANTED in self.space.run("ip", "-o", "addr", "show", "dev", DEVICE)

    def end(self) -> None:
        self.kill()
        self.proxy.send_signal(signal.SIGCONT)
        self.proxy.kill()
        self.proxy.wait()
        self.space.close()


def follow(space: Space, folder: Path, reload: Path, tell: str) -> subprocess.Popen[bytes]:
    """Start what follows in a namespace. `tell`: the shell's word for what Docker does with its signal."""
    doubles = folder / "doubles"
    doubles.mkdir()
    for name, text in (("systemctl", f"exec sh {reload}"), ("docker", f"[ $1 != kill ] || {tell}")):
        (doubles / name).write_text(f"#!/bin/sh\n{text}\n")
        (doubles / name).chmod(0o755)
    argv = ("env", f"PATH={doubles}:{os.environ['PATH']}", sys.executable, str(folder / "office.py"), "spec")
    return subprocess.Popen(space.argv(*argv))


class Network:
    """Both, and a client."""

    def __init__(self, folder: Path) -> None:
        self.client = Space()
        self.client.run("ip", "link", "add", "br0", "type", "bridge")
        self.client.address("br0", "10.0.0.99/24")
        self.hosts = [Host(self.client, index, folder) for index in range(2)]
        self.answers: list[tuple[float, str]] = []
        argv = self.client.argv(sys.executable, "-c", CLIENT)
        self.asking = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._hear, daemon=True).start()
        self.settle()

    def _hear(self) -> None:
        assert self.asking.stdout
        for line in self.asking.stdout:
            self.answers.append((time.monotonic(), line.strip()))

    def logs(self) -> str:
        return "\n".join(f"{host.name}: {host.log()[-2000:]}" for host in self.hosts)

    def until(self, seconds: float, condition: Callable[[], Any]) -> None:
        until(condition, seconds, logs=self.logs)

    def settle(self) -> tuple[Host, Host]:
        """Who has it, and the other one, when the first of them has answered alone for three seconds: by then a proxy
        that came back counts.
        """

        def one_alone() -> bool:
            now = time.monotonic()
            said = [name for when, name in self.answers if when > now - 3]
            return len(said) > 9 and len(set(said)) == 1 and sum(host.has_it() for host in self.hosts) == 1

        time.sleep(3)
        self.until(60, one_alone)
        return self.holder()

    def holder(self) -> tuple[Host, Host]:
        """Who has it, and the other one."""
        first, second = self.hosts
        return (first, second) if first.has_it() else (second, first)

    def gap(self, other: Host, act: Callable[[], Any]) -> float:
        """Seconds from an act until the other one answers at the address."""
        begun = time.monotonic()
        act()
        self.until(15, lambda: any(when > begun and name == other.name for when, name in self.answers))
        return next(when for when, name in self.answers if when > begun and name == other.name) - begun

    def end(self) -> None:
        self.asking.kill()
        self.asking.wait()
        for host in self.hosts:
            host.end()
        self.client.close()


class Followed(Network):
    """The same, with what follows on each: they have a rail between them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        first, second = self.hosts
        wire(first.space, "rail0", second.space, "rail0")
        self.followers = {}
        for index, host in enumerate(self.hosts):
            host.space.address("rail0", f"192.168.177.{11 + index}/24")
            (host.folder / "pid").write_text(str(host.kept.pid))
            tell = f"kill -HUP $(cat {host.folder}/pid)"
            self.followers[host.name] = follow(host.space, host.folder, host.folder / "reload.sh", tell)

    def end(self) -> None:
        for each in self.followers.values():
            each.kill()
            each.wait()
        super().end()
