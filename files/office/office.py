"""The interface that the deploy's login came in over: which addresses it has, whatever they were at the deploy.

The office's router may give a node another address at a boot, or while it serves. HAProxy listens on the addresses
that there are, keepalived speaks with the other nodes at theirs, and the proxy's certificate is for them. Nodes tell
each other over the fabric, whose addresses are the plan's. What was heard last outlives a boot: a node that meets
nobody must not take an address that another one has. They also tell who is connected to the virtual address, for the
one that gets it next (streams.py).

Runs on the node as `office.py SPEC`; `office.py now` says once what there is, and prints why it can't; `office.py know
NAME=ADDRESS ...` is what a deploy says of the other nodes. office.json beside it has

- `device`: that interface; `routerless`: no router had given it an address; `port`: the proxy's; `moving`: the virtual
  address, which is nobody's own, or empty
- `fabric`: [address, port] where this node is told; `others`: name -> address on the fabric, of those that are told;
  `rails`: subnets that no address in the office is of
- `name`: of this node; `names`: for its certificate, beside its addresses; none: it is not from our authority. `head`:
  who signs; `signs`: on the head the names of each other node
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any

import heard
from certified import Certified
from streams import Streams

if TYPE_CHECKING:
    from operations.wire.specs import OfficeSpec

#: Seconds between two words to the others, and two looks where the kernel says nothing.
LOOK_S = 2.0
#: Seconds between two words of who is connected to the virtual address: whoever came since the last one is not ended.
STREAMS_S = 0.5
#: Seconds in which the words about one change come.
PAUSE_S = 0.02
#: Seconds until one that has not taken up an address is told again.
AGAIN_S = 10.0
#: Seconds for a word with systemd.
WORD_S = 20.0
#: rtnetlink's groups: links, IPv4 and IPv6 addresses (linux/rtnetlink.h).
_GROUPS = 0x1 | 0x10 | 0x100
#: To be bound where the address is not yet, or not any more (linux/in.h).
_IP_FREEBIND = 15
#: A datagram of UDP.
_MOST = 65_507
RUN, KNOWN = Path("/run/tandem/office"), Path("/var/lib/tandem/office.json")
#: What each reads, and its unit: what it has taken up lies beside it as `.loaded`.
READERS = {"haproxy.cfg": "tandem-proxy", "unicast.conf": "tandem-address"}
HERE = Path(__file__).parent


def addresses(wanted: OfficeSpec) -> list[str]:
    """Those of the interface that others can use, IPv4 alone: IPv6 ones, and what a cable's own (169.254.0.0/16) is,
    are there before the router gives an address. Beside a virtual address none, unless one is of its network.
    """
    argv = ["ip", "-j", "-4", "addr", "show", "dev", wanted["device"]]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    links: list[dict[str, Any]] = json.loads(done.stdout or "[]") if done.returncode == 0 else []
    own = [info for link in links for info in link.get("addr_info", []) if info["local"] != wanted["moving"]]
    found = [info for info in own if info["scope"] == "global"]
    if wanted["routerless"]:
        found = found or [info for info in own if info["scope"] == "link"]
    if wanted["moving"]:
        # First the one by which its network is reached: keepalived speaks from it.
        found.sort(key=lambda info: IPv4Address(wanted["moving"]) not in _network(info))
        if found and IPv4Address(wanted["moving"]) not in _network(found[0]):
            return []
    return [info["local"] for info in found]


def _network(info: dict[str, Any]) -> IPv4Network:
    return IPv4Network(f"{info['local']}/{info['prefixlen']}", strict=False)


def known() -> dict[str, list[str]]:
    """The other nodes' addresses in the office, as they were heard last."""
    try:
        return heard.by_name(json.loads(KNOWN.read_text()))
    except (OSError, ValueError):
        return {}


def say(text: str) -> None:
    """One line for the journal."""
    print(f"tandem: {text}", file=sys.stderr, flush=True)


def write(path: Path, text: str) -> None:
    """Whole, or not at all; nothing where it is so already."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # The proxy's start, keepalived's and what follows may write at once.
    aside = path.with_suffix(f".{os.getpid()}")
    aside.write_text(text)
    # HAProxy reads it, as a user of its own.
    aside.chmod(0o644)
    path.parent.chmod(0o755)
    aside.rename(path)


def tell(wanted: OfficeSpec, own: list[str], others: dict[str, list[str]]) -> None:
    """Write what HAProxy and keepalived read."""
    binds = [f"{each}:{wanted['port']}" for each in own]
    write(RUN / "haproxy.cfg", f"global\n    setenv OFFICE {','.join(binds)}\n")
    write(RUN / "addresses", "".join(f"{each}\n" for each in own))
    peers = sorted({each for name in others for each in others[name] if ":" not in each} - set(own))
    # Without a peer keepalived would speak to the whole network.
    block = "".join(f"    {each}\n" for each in peers or ["127.0.0.1"])
    write(RUN / "unicast.conf", f"unicast_src_ip {own[0]}\nunicast_peer {{\n{block}}}\n")


class Office:
    """What this node knows, and those whom it tells."""

    def __init__(self, wanted: OfficeSpec) -> None:
        self.wanted, self.own = wanted, list[str]()
        self.others = known()
        self.certified = Certified(wanted["name"], wanted["names"], wanted["signs"])
        self.streams = Streams(wanted["device"], wanted["moving"], wanted["port"])
        #: When each reader was told last, monotonic.
        self.told = dict[str, float]()
        self.kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self.kernel.bind((0, _GROUPS))
        self.kernel.setblocking(False)
        self.wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if wanted["others"]:
            self.wire.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
            try:
                self.wire.bind(tuple(wanted["fabric"]))
            except OSError as error:
                address, port = wanted["fabric"]
                sys.exit(f"tandem: UDP port {port} of {address} can't be had: {error.strerror} (`ss -ulnp`)")

    def look(self) -> None:
        """Look once, and tell everybody."""
        own = addresses(self.wanted)
        if own:
            self.streams.follow(self.own, own)
        if own and own != self.own:
            say(f"{self.wanted['device']} has {', '.join(own)}")
            self.own = own
        # A deploy may have said something.
        self.others = known()
        if not self.own:
            return
        tell(self.wanted, self.own, self.others)
        self.certified.see(self.own)
        for name in self.wanted["others"]:
            self.greet(name, asks=self.certified.asks if name == self.wanted["head"] else "")
        self.have_taken_up()

    def greet(self, name: str, **more: object) -> None:
        """Tell another node; one that is not there is told again."""
        word = json.dumps({"name": self.wanted["name"], "own": self.own, **more})
        with suppress(OSError):
            self.wire.sendto(word.encode(), (self.wanted["others"][name], self.wanted["fabric"][1]))

    def tell_streams(self) -> None:
        """Tell the others who is connected here to the virtual address."""
        streams = self.streams.here()
        if streams is not None and self.own:
            for name in self.wanted["others"]:
                self.greet(name, streams=streams)

    def hear(self) -> None:
        """One word of another node's; of anybody else, or that says nothing, it is let be."""
        try:
            data, source = self.wire.recvfrom(_MOST)
        except OSError:
            return
        name, word = heard.word(data, source, self.wanted["others"], self.wanted["fabric"][1])
        own = heard.addresses(word.get("own"), self.wanted["rails"])
        if not name or not own:
            return
        if "streams" in word:
            self.streams.hear(name, word["streams"])
        if self.others.get(name) != own:
            say(f"{name} has {', '.join(own)}")
            self.others = {**known(), name: own}
            write(KNOWN, json.dumps(self.others, indent=1) + "\n")
            if self.own:
                tell(self.wanted, self.own, self.others)
                self.have_taken_up()
        if asks := str(word.get("asks", "")):
            taken = {each for other in self.others if other != name for each in self.others[other]}
            if chain := self.certified.sign(name, own, asks, {*self.own, *taken}):
                self.greet(name, chain=chain)
        if name == self.wanted["head"] and (chain := str(word.get("chain", ""))):
            self.certified.take(chain, self.own)

    def have_taken_up(self) -> None:
        """Have those who run read what has changed."""
        for file, unit in READERS.items():
            loaded, now = (RUN / file).with_suffix(".loaded"), time.monotonic()
            is_new = loaded.exists() and loaded.read_text() != (RUN / file).read_text()
            if not is_new and not (unit == "tandem-proxy" and self.certified.is_new()):
                self.told.pop(unit, None)
            elif now - self.told.get(unit, -AGAIN_S) >= AGAIN_S:
                self.told[unit] = now
                # One that does not run reads it when it starts.
                argv = ["systemctl", "--no-block", "try-reload-or-restart", f"{unit}.service"]
                with suppress(OSError, subprocess.TimeoutExpired):
                    subprocess.run(argv, capture_output=True, timeout=WORD_S, check=False)

    def forever(self) -> None:
        """Look, for ever; at once when the kernel says that an address came or went."""
        looked = told = float("-inf")
        while True:
            now = time.monotonic()
            self.streams.go_on()
            if now - told >= STREAMS_S:
                self.tell_streams()
                told = now
            if now - looked >= LOOK_S:
                self.look()
                looked = now
            due = min(looked + LOOK_S, told + STREAMS_S, self.streams.due)
            said, _, _ = select.select([self.kernel, self.wire], [], [], max(due - time.monotonic(), 0))
            if self.wire in said:
                self.hear()
            if self.kernel in said:
                self.drain()
                looked = float("-inf")

    def drain(self) -> None:
        """A change is said in several words, all of which are looked at at once."""
        time.sleep(PAUSE_S)
        # Until there is no more; one who lacked room for all of it looks all the same.
        with suppress(OSError):
            while words := self.kernel.recv(65536):
                self.streams.see(words)


def main(argv: list[str]) -> None:
    """See above."""
    wanted: OfficeSpec = json.loads((HERE / "office.json").read_text())
    if argv[0] == "know":
        given = dict(each.split("=", 1) for each in argv[1:])
        write(KNOWN, json.dumps({name: each.split(",") for name, each in given.items()}, indent=1) + "\n")
    elif argv[0] == "now":
        if own := addresses(wanted):
            tell(wanted, own, known())
        else:
            beside = f" in the network of proxy_address {wanted['moving']}" if wanted["moving"] else ""
            print(f"{wanted['device']} has no IPv4 address{beside}")
    else:
        Office(wanted).forever()


if __name__ == "__main__":
    main(sys.argv[1:])
