"""The page of Tandem: how the nodes are, for whoever has the owner's key. Listens on a socket; HAProxy is before it.

Each of its paths wants the key, and says nothing without it. It reads and never changes anything.

Runs on the node as `page.py SPEC`, with the owner's key in $CREDENTIALS_DIRECTORY/key; page.json beside it has

- `socket`, `asked_by`: where it listens, and the users whom it answers there
- `name`: the node that it runs on
- `models`: [{topology, executor, recipe, model, spec, load_minutes, unit, nodes, answers}]; `model`: what clients call
  it; `nodes`: names of those that it lies on, rank 0 first; `answers`: of those whose engine answers
- `nodes`: [{name, url, rails}] of those that serve; `url`: of the exporter
- `advice`: the file that a bench or a deploy hands over, see handed.py
- `panels`: see figures.py; with `expr` for the Prometheus at `prometheus` (empty: there is none), and `long` in its
  place for spans whose points are far apart
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import TYPE_CHECKING, cast

from advice import bench_and_advice
from answers import handler
from asking import Heard, Source, as_json, ask_all
from figures import names_of
from handed import Handed
from keyed import Keyed
from last_hour import EVERY_S, Memory
from node_events import Events, read_events
from nodes import Watch
from reading import read
from series import Charts, asked
from state import state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operations.wire.page import Events as Happened
    from operations.wire.page import Series, State
    from operations.wire.specs import PageSpec


#: `struct ucred` of unix(7): process, user, group.
_PEER = struct.Struct("3i")


class Server(ThreadingMixIn, UnixStreamServer):
    """Its folder is its own, so nobody else listens in its place; whoever is on the node may come, and is asked who it
    is: the proxy's user has another one than this, and both have none of the other's groups.
    """

    daemon_threads = True

    def __init__(self, path: str, answers: type[BaseHTTPRequestHandler], asked_by: Sequence[int]) -> None:
        super().__init__(path, answers)
        self._asked_by = frozenset(asked_by)
        os.chmod(path, 0o666)

    def verify_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> bool:
        """Whether it comes from somebody whom it answers."""
        asks = request if isinstance(request, socket.socket) else request[1]
        said = asks.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        return _PEER.unpack(said)[1] in self._asked_by


class Page:
    """What is told, out of one look at all nodes for all who ask."""

    def __init__(self, wanted: PageSpec) -> None:
        self.wanted = wanted
        names = names_of(wanted["panels"])
        self._nodes = [
            Source(each["name"], f"{each['url']}/metrics", lambda text, when: read(text, when, ("tandem_",), names))
            for each in wanted["nodes"]
        ]
        self._watch, self._memory = Watch(), Memory(wanted["panels"])
        self._charts = Charts(wanted["prometheus"], self._memory)
        self._handed = Handed(wanted["advice"])
        self._events = Events(
            [
                Source(each["name"], f"{each['url']}/events.json", lambda text, when: read_events(as_json(text)))
                for each in wanted["nodes"]
            ]
        )

    def _heard(self) -> list[Heard]:
        ask_all(self._nodes)
        return [Heard(source.name, *source.heard()) for source in self._nodes]

    def look(self) -> None:
        """Into the memory."""
        heard = self._heard()
        self._memory.add({each.name: each.reading for each in heard if each.reading and not each.silent_since})
        self._events.see(self._state(heard)["nodes"])

    def _state(self, heard: list[Heard]) -> State:
        now = {each.name: each.reading for each in heard if each.reading and not each.silent_since}
        return state(self.wanted, heard, self._watch, self._memory.figures(now))

    def state(self, query: dict[str, list[str]]) -> State:
        said = self._state(self._heard())
        parts, said["advice_note"] = self._handed.told()
        for model, declared in zip(said["models"], self.wanted["models"], strict=True):
            name = model["name"]
            more = bench_and_advice(parts.get(name), declared["spec"], model, self._memory.hour(name))
            cast("dict[str, object]", model).update(more)
        return said

    def series(self, query: dict[str, list[str]]) -> Series:
        """Raises Wrong."""
        panel, span = asked(query, self.wanted["panels"])
        return self._charts.told(panel, span)

    def events(self, query: dict[str, list[str]]) -> Happened:
        return self._events.told()

    def keep_looking(self) -> None:
        """For ever; a look that fails is said once."""
        said = ""
        while True:
            try:
                self.look()
            except Exception as error:
                if said != (said := f"{type(error).__name__}: {error}"):
                    print(f"tandem: a look at the nodes failed: {said}", file=sys.stderr, flush=True)
            time.sleep(EVERY_S)


def main() -> int:
    """Listen, for ever."""
    here = Path(__file__).parent
    wanted: PageSpec = json.loads((here / "page.json").read_text())
    key = (Path(os.environ["CREDENTIALS_DIRECTORY"]) / "key").read_text().strip()
    page = Page(wanted)
    files = {name: (here / name).read_bytes() for name in wanted["static"]}
    asks = {"state.json": page.state, "series.json": page.series, "events.json": page.events}
    # One that was killed has left it, where its folder was not made anew.
    Path(wanted["socket"]).unlink(missing_ok=True)
    server = Server(wanted["socket"], handler(Keyed(key), files, asks), wanted["asked_by"])
    threading.Thread(target=page.keep_looking, daemon=True).start()
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
