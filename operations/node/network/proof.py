"""The rails proven from this node's end: full frames, whose netdev answers for an address, and TCP in both directions.

All nodes run it at once, each listening for the others, so that one round trip to each is enough.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress

from operations.node.commands import output
from operations.node.network import owner_firewall
from operations.node.network.claimed import question
from operations.wire.fabric import FabricTold

#: Connections have these seconds behind the frames, and until the deadline where that is later.
GRACE_S = 5.0
#: Seconds in which another netdev than the first one would have answered.
ANSWERS_S, MORE_S = 1.0, 0.05
_ARP, _REPLY = 0x0806, 2
#: Of linux/in.h; Python has no name for it.
_IP_FREEBIND = 15
#: (name of the other node, own netdev, address of the other's).
Way = tuple[str, str, str]


def prove(
    peers: Mapping[str, Sequence[Sequence[str]]],
    mtu: int,
    own: Mapping[str, str] | None = None,
    macs: Mapping[str, str] | None = None,
    ports: Sequence[int] = (),
    patience_s: float = 0.0,
) -> FabricTold:
    """What does not get through, each in a line. `peers`: name -> [netdev, address] of each way; `own`: netdev ->
    address; `macs`: address -> MAC of its netdev, for ways without a node between; `ports`: to be reached over these,
    and listened on. A link may need `patience_s` seconds after netplan was applied; another node's proof may begin as
    much later.
    """
    own, macs = own or {}, macs or {}
    ways: list[Way] = [(peer, device, address) for peer, each in peers.items() for device, address in each]
    direct = [way for way in ways if way[2] in macs] if ports else []
    deadline = time.monotonic() + patience_s
    over, calls = threading.Event(), [(way, port) for way in direct for port in ports]
    with (
        Door([own[device] for _, device, _ in direct], ports) as door,
        # Its own, with room for all: a call ends with the frames' end, and those would wait for a free thread.
        ThreadPoolExecutor(len(calls) or 1) as dialling,
        ThreadPoolExecutor(64) as pool,
    ):
        dialled = {call: dialling.submit(_dial, *call, over) for call in calls}
        told = list(pool.map(lambda way: _carried(mtu, deadline, way, own.get(way[1], ""), macs.get(way[2], "")), ways))
        # The other node listens as long as its own proof runs, which may begin later than this one's.
        end = max(deadline, time.monotonic() + GRACE_S)
        wait(dialled.values(), end - time.monotonic())
        unheard = door.wait({(address, own[device], port) for _, device, address in direct for port in ports}, end)
        over.set()
    silent = _silent(dialled, {way for way, texts in zip(ways, told, strict=True) if any(texts)})
    shut = list(dict.fromkeys(device for _, device, address in direct if address in unheard))
    by, remedy = owner_firewall.known(shut)
    return {
        "problems": [lost for lost, _ in told if lost],
        "strangers": [strange for _, strange in told if strange],
        "silent": silent,
        "shut": {"by": by, "device": ", ".join(shut), "remedy": remedy} if by else {},
    }


def _carried(mtu: int, deadline: float, way: Way, own: str, mac: str) -> tuple[str, str]:
    """What does not get through, and who answers that should not, both tried again until the deadline. Two empty words:
    all is well. `mac`: the right one, empty where it is not known.
    """
    while True:
        # First: a frame that goes to the other half of a port may be answered there, or be lost. The other node may
        # have set its netdevs' ARP a moment ago.
        strange = _strangers(way, own, mac) if mac else ""
        lost = "" if strange else _lost(mtu - 28, *way)
        if not (strange or lost) or time.monotonic() > deadline:
            return lost, strange
        time.sleep(1)


def _lost(size: int, peer: str, device: str, address: str) -> str:
    """What does not get through; empty: all does."""
    ping = ("ping", "-W", "1", "-q", "-I", device)
    # A first packet may be lost to address resolution.
    if output(*ping, "-M", "do", "-s", str(size), "-c", "1", address) or output(
        *ping, "-M", "do", "-s", str(size), "-c", "2", address
    ):
        return ""
    small = output(*ping, "-c", "1", address)
    # 20 bytes of IPv4 header and 8 of ICMP.
    return (
        f"{device} -> {peer} ({address}): {f'small packets do, {size + 28} bytes do not' if small else 'nothing does'}"
    )


def _strangers(way: Way, own: str, mac: str) -> str:
    """Which MACs beside the right one answer for an address; empty: none. What the other kernel has learnt of this end
    is put right by the question itself.
    """
    peer, device, address = way
    found = answering(device, own, address)
    if found <= {mac}:
        return ""
    return f"{device} -> {peer} ({address}): {', '.join(sorted(found - {mac}))} answers, its netdev is {mac}"


def answering(device: str, own: str, address: str) -> set[str]:
    """MACs of all who answer on a netdev, asked once for an address as its kernel asks."""
    found: set[str] = set()
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ARP))
    # On a netdev that is down, or gone, nobody answers.
    with wire, suppress(OSError):
        wire.bind((device, _ARP))
        wire.send(question(wire.getsockname()[4], socket.inet_aton(address), socket.inet_aton(own)))
        end = time.monotonic() + ANSWERS_S
        while (left := end - time.monotonic()) > 0:
            wire.settimeout(left)
            frame = wire.recv(2048)
            if int.from_bytes(frame[20:22], "big") == _REPLY and frame[28:32] == socket.inet_aton(address):
                end = end if found else time.monotonic() + MORE_S
                found.add(frame[22:28].hex(":"))
    return found


def _dial(way: Way, port: int, over: threading.Event) -> bool:
    """Whether somebody takes a connection; tried again, since the other node may not listen yet."""
    _peer, device, address = way
    while not over.is_set():
        with socket.socket() as call, suppress(OSError):
            call.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
            call.settimeout(1)
            call.connect((address, port))
            return True
        over.wait(0.05)
    return False


def _silent(dialled: Mapping[tuple[Way, int], Future[bool]], lost: Collection[Way]) -> list[str]:
    """A line for each way that carries frames, and on which a port could not be reached."""
    ports: dict[Way, list[str]] = {}
    for (way, port), task in dialled.items():
        if way not in lost and not task.result():
            ports.setdefault(way, []).append(str(port))
    return [
        f"{device} -> {peer} ({address}): no TCP connection to port {', '.join(each)}"
        for (peer, device, address), each in ports.items()
    ]


class Door:
    """Listens on ports of this node's addresses, as far as nobody else does, and takes note of who has come."""

    def __init__(self, addresses: Sequence[str], ports: Sequence[int]) -> None:
        self._listening: dict[tuple[str, int], socket.socket] = {}
        self._seen: set[tuple[str, str, int]] = set()
        self._changed = threading.Condition()
        for place in ((address, port) for address in dict.fromkeys(addresses) for port in ports):
            server = socket.socket()
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # An address that netplan has yet to give will do.
            server.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
            try:
                server.bind(place)
                server.listen()
                self._listening[place] = server
            except OSError:
                # Who has the port already answers there in our place.
                server.close()

    def __enter__(self) -> Door:
        for place, server in self._listening.items():
            threading.Thread(target=self._take, args=(server, *place), daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        for server in self._listening.values():
            # Wakes the thread that accepts.
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()

    def wait(self, expected: set[tuple[str, str, int]], end: float) -> set[str]:
        """Wait until all of `expected` have connected, until `end` (time.monotonic()) at the latest.

        Each is (its address, own address, port). Where another program has that port, nobody is waited for.

        Returns the addresses of those who have not come.
        """
        here = {each for each in expected if each[1:] in self._listening}
        with self._changed:
            self._changed.wait_for(lambda: here <= self._seen, max(end - time.monotonic(), 0))
            return {address for address, _, _ in here - self._seen}

    def _take(self, server: socket.socket, own: str, port: int) -> None:
        with suppress(OSError):
            while True:
                guest, (address, _) = server.accept()
                guest.close()
                with self._changed:
                    self._seen.add((address, own, port))
                    self._changed.notify_all()
