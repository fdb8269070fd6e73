"""Clients' connections to addresses that have gone: to the virtual one, with its node, and to this node's own.

What is sent to them is in tickle.py. Other nodes tell who is connected to the virtual address, for the time when it is
this node's.
"""

from __future__ import annotations

import errno
import sys
import threading
import time
from collections.abc import Iterable

import tickle

#: Seconds until an address has gone for good: one whose lease is renewed comes back at once.
LEFT_S = 3.0


class Streams:
    """`device`: the interface of the addresses; `moving`: the virtual one, or empty; `port`: the proxy's."""

    def __init__(self, device: str, moving: str, port: int) -> None:
        self.device, self.moving, self.port = device, moving, port
        #: By the names of the nodes that have told.
        self.told = dict[str, list[tickle.Peer]]()
        #: Whom the virtual address has left, how often each is still told, and when next, monotonic.
        self.peers, self.times, self.due = list[tickle.Peer](), 0, float("inf")
        #: Addresses that this node had, and since when it has not, monotonic.
        self.left = dict[str, float]()

    def here(self) -> list[tickle.Peer] | None:
        """Who is connected to the virtual address, for the others; None: there is none."""
        return tickle.connected(self.moving, self.port) if self.moving else None

    def hear(self, name: str, said: object) -> None:
        """What a node tells, in the place of what it told before."""
        self.told[name] = tickle.believed(said)

    def see(self, words: bytes) -> None:
        """The kernel's words: when the virtual address has come, all that others have told of are to be ended."""
        if self.moving and tickle.has_come(self.moving, words):
            self.peers = sorted({peer for peers in self.told.values() for peer in peers})
            self.told.clear()
            if self.peers:
                _say(f"{self.moving} has come: {len(self.peers)} connections of before are ended")
                self.times, self.due = tickle.TIMES, time.monotonic()

    def go_on(self) -> None:
        """Tell whom the virtual address has left what is due by now."""
        if time.monotonic() < self.due:
            return
        self.times -= 1
        self.due = time.monotonic() + tickle.AGAIN_S if self.times > 0 else float("inf")
        try:
            tickle.send(self.moving, self.port, self.peers)
        except OSError as error:
            self.due = float("inf")
            # It may have gone on to another node.
            if error.errno != errno.EADDRNOTAVAIL:
                _say(f"connections to {self.moving} can't be ended: {error.strerror}")

    def follow(self, before: Iterable[str], own: Iterable[str]) -> None:
        """This node's own addresses: those that are gone for good are left, beside all else."""
        now = time.monotonic()
        self.left = {address: since for address, since in self.left.items() if address not in own}
        self.left |= {address: now for address in before if address not in own}
        for address in [address for address, since in self.left.items() if now - since >= LEFT_S]:
            del self.left[address]
            threading.Thread(target=self._end, args=(address,), daemon=True).start()

    def _end(self, address: str) -> None:
        try:
            if count := tickle.end_left(self.device, address, self.port):
                _say(f"{self.device} has not {address} any more: {count} connections to it are ended")
        except OSError as error:
            _say(f"connections to {address} can't be ended: {error.strerror}")


def _say(text: str) -> None:
    print(f"tandem: {text}", file=sys.stderr, flush=True)
