"""Networks of a test's own: namespaces with wires between them, which end with the processes that hold them (root)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

#: Whom a listener is for: (kind, address, port); kind: tcp | udp.
Place = tuple[str, str, int]

#: Runs in a namespace, perhaps in a control group: listens on all places, says so, and answers `hello`.
_LISTENER = """
import json, selectors, socket, sys
places, group = json.loads(sys.argv[1]), sys.argv[2]
if group:
    open(group + "/cgroup.procs", "w").write("0")
chooser = selectors.DefaultSelector()
for kind, address, port in places:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    own = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    own.bind((address, port))
    kind == "tcp" and own.listen(64)
    chooser.register(own, selectors.EVENT_READ, kind)
print("ready", flush=True)
while True:
    for key, _ in chooser.select():
        if key.data == "tcp":
            guest = key.fileobj.accept()[0]
            guest.send(b"hello")
            guest.close()
        else:
            key.fileobj.sendto(b"hello", key.fileobj.recvfrom(99)[1])
"""
#: Asks all places at once: `hello`, `refused`, or `silent` after a second; JSON.
_CALLER = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def ask(place):
    kind, address, port = place
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as own:
        own.settimeout(1)
        try:
            own.connect((address, port))
            kind == "udp" and own.send(b"?")
            return own.recv(9).decode()
        except ConnectionRefusedError:
            return "refused"
        except OSError:
            return "silent"

places = json.loads(sys.argv[1])
with ThreadPoolExecutor(64) as pool:
    print(json.dumps(list(pool.map(ask, places))))
"""


class Space:
    """A network namespace."""

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[str]] = []
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "900"], text=True)
        deadline = time.monotonic() + 10
        while os.readlink(f"/proc/{self.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self.run("ip", "link", "set", "lo", "up")

    @property
    def pid(self) -> int:
        return self._holder.pid

    def argv(self, *command: str) -> list[str]:
        """The command line that runs a command in it; the files are this machine's."""
        return ["nsenter", "--target", str(self.pid), "--net", *command]

    def run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(self.argv(*command), capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, f"{command}: {done.stderr}"
        return done.stdout

    def address(self, device: str, *addresses: str) -> None:
        """Give a device addresses, and set it up."""
        for each in addresses:
            more = ["nodad"] if ":" in each else []
            self.run("ip", "addr", "add", each, "dev", device, *more)
        self.run("ip", "link", "set", device, "up")

    def listen(self, *places: Place, group: Path | None = None) -> None:
        """Answer on these places until the end, as a process of the control group."""
        argv = self.argv(sys.executable, "-c", _LISTENER, json.dumps(places), str(group or ""))
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self._children.append(child)
        assert child.stdout and child.stdout.readline() == "ready\n"

    def ask(self, places: Sequence[Place]) -> dict[Place, str]:
        """What each place answers to somebody here."""
        told: list[str] = json.loads(self.run(sys.executable, "-c", _CALLER, json.dumps(places)))
        return dict(zip(places, told, strict=True))

    def close(self) -> None:
        """End everything in it."""
        for child in [*self._children, self._holder]:
            child.kill()
            child.wait()


def wire(one: Space, device: str, other: Space, far: str) -> None:
    """A cable between two namespaces; both ends are down and have no address."""
    one.run("ip", "link", "add", device, "type", "veth", "peer", "name", far, "netns", str(other.pid))
