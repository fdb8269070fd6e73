"""The other nodes of a cluster, for one that serves alone: who waits for it, and who serves alone as well.

It speaks where the ranks meet (files/engine/meet.py), whose words these are: it answers who calls here in place of its
rank with `{"alone": true}`, its rank and its spec, and calls rank 0 with the same. A connection that stands is a rank
that waits; the kernels ask each other every second whether it does.
"""

from __future__ import annotations

import json
import select
import socket
from typing import Any

#: Seconds for a call; it is made once in a look, so what does not answer must not keep it long.
CALL_S = 1.0
#: Seconds until a connection whose other end is silent is none.
SILENCE_S = 12
#: Bytes that a rank may say before its line ends.
LINE = 4096


class Caller:
    """A connection, and the last thing that came over it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.said: dict[str, Any] = {}
        self.gone = False
        self._buffer = b""
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_S * 1000)

    def say(self, message: dict[str, object]) -> None:
        """One line; who can't take it is gone at the next read."""
        try:
            self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass

    def read(self) -> None:
        """Take what has come."""
        while not self.gone and select.select([self.connection], [], [], 0)[0]:
            try:
                data = self.connection.recv(LINE)
                *lines, self._buffer = (self._buffer + data).split(b"\n")
                messages = [json.loads(line) for line in lines if line]
            except (OSError, ValueError):
                self.gone = True
                return
            self.gone = not data or len(self._buffer) > LINE or not all(isinstance(each, dict) for each in messages)
            for message in messages if not self.gone else []:
                self.said.update(message)


class Others:
    """`addresses`: of all ranks on the fabric, by rank. `spec`: of this plan; who has another one would not meet."""

    def __init__(self, rank: int, addresses: list[str], port: int, spec: str) -> None:
        self.rank, self.addresses, self.port, self.spec = rank, addresses, port, spec
        self.listener: socket.socket | None = None
        self.callers: list[Caller] = []
        #: Our own call to rank 0.
        self.head: Caller | None = None

    def missing(self) -> list[int]:
        """Ranks that do not wait for this node's. To ask is to be there: from now on who calls here is answered."""
        self._hear()
        waiting = {int(each.said["rank"]) for each in self.callers if self._is_a_rank(each.said)}
        if self.rank:
            waiting |= self._at_the_head()
        return [rank for rank in range(len(self.addresses)) if rank != self.rank and rank not in waiting]

    def who_serves_alone(self) -> list[int]:
        """Other ranks whose nodes serve alone: each is called once."""
        found = []
        for rank in range(len(self.addresses)):
            caller = self._call(rank) if rank != self.rank else None
            if caller:
                select.select([caller.connection], [], [], CALL_S)
                caller.read()
                if caller.said.get("alone"):
                    found.append(rank)
                caller.connection.close()
        return found

    def close(self) -> None:
        """Nobody is answered any more, and the ranks call each other."""
        for each in [*self.callers, *([self.head] if self.head else [])]:
            each.connection.close()
        if self.listener:
            self.listener.close()
        self.listener, self.callers, self.head = None, [], None

    def _hear(self) -> None:
        if not self.listener:
            # Where the address is gone, or a rank that ends still listens: the next look tries again.
            try:
                self.listener = socket.create_server((self.addresses[self.rank], self.port))
            except OSError:
                return
            self.listener.setblocking(False)
        while select.select([self.listener], [], [], 0)[0]:
            try:
                caller = Caller(self.listener.accept()[0])
            except OSError:
                break
            caller.say(self._alone())
            self.callers.append(caller)
        for caller in self.callers:
            caller.read()
            if caller.gone:
                caller.connection.close()
        self.callers = [each for each in self.callers if not each.gone]

    def _at_the_head(self) -> set[int]:
        """Ranks that wait where rank 0 does, itself among them."""
        if self.head:
            self.head.read()
        if not self.head or self.head.gone:
            if self.head:
                self.head.connection.close()
            self.head = self._call(0)
            return set()
        others = set(range(len(self.addresses)))
        if self.head.said.get("alone"):
            # It serves alone as well, as after a cut between two that live; of two the lower rank goes on.
            return others
        missing, serve = self.head.said.get("missing"), self.head.said.get("serve")
        if not isinstance(missing, list) or not isinstance(serve, list):
            return set()
        # Of several that serve alone the highest rank goes back first, and the others see it wait.
        return others - {rank for rank in missing if rank not in serve or rank > self.rank}

    def _call(self, rank: int) -> Caller | None:
        try:
            connection = socket.create_connection((self.addresses[rank], self.port), timeout=CALL_S)
        except OSError:
            return None
        caller = Caller(connection)
        caller.say(self._alone())
        return caller

    def _alone(self) -> dict[str, object]:
        return {"alone": True, "rank": self.rank, "spec": self.spec}

    def _is_a_rank(self, said: dict[str, Any]) -> bool:
        """Whether that is a rank of this plan that waits, and not a node that serves alone as well."""
        return isinstance(said.get("rank"), int) and said.get("spec") == self.spec and not said.get("alone")
