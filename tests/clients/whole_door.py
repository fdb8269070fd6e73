"""The whole door: the real HAProxy, configured as a deploy renders it, and two real LiteLLM, over engines' doubles."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.bench.routing import doors
from tests.node.confined import contained, owned, place
from tests.node.strangers import request
from tests.node.test_haproxy import Proxy
from tests.plan.samples import ROOT
from tests.support.ports import free_port
from tests.support.waiting import until_it_listens

#: A client's.
KEY = "sk-of-an-app"
ENGINE = "tests.clients.engine_double"


class Engine:
    """A double that runs."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """And wait until it answers."""
        argv = [sys.executable, "-m", ENGINE, str(self.port)]
        self.process = subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.DEVNULL)
        until_it_listens(self.port)

    def says(self, path: str) -> Any:
        """What it has been asked (`/asked`), or how many requests it has (`/under_way`)."""
        return json.loads(request(self.url, "GET", path)[2])

    def kill(self) -> None:
        """At once."""
        self.process.kill()
        self.process.wait()


class WholeDoor(Proxy):
    """`url` is HAProxy's; `engines` are behind both LiteLLM, which are `one` and the same where nothing is counted."""

    def __init__(self, folder: Path, engines: list[Engine], one: bool = False) -> None:
        self.engines, self.one = engines, one
        self.litellm: list[doors.Door] = []
        # A client's body has the time here that it has on a node.
        super().__init__(folder, {"timeout http-request 1s": "timeout http-request 30s", "gt 1048576": "gt 33554432"})

    def double(self, name: str) -> subprocess.Popen[bytes]:
        """The real one in its place."""
        home = self.folder / "litellm-a" if self.one else self.folder / f"litellm-{name}"
        secrets = home / "balanced/secrets"
        plain = {"made": 1.0, "expires": None, "requests": None, "tokens": None}
        keys = {"app": {"hash": sha256(KEY.encode()).hexdigest(), **plain}}

        def before(folder: Path, used: Path) -> list[str]:
            secrets.mkdir()
            (secrets / "keys.json").write_text(json.dumps(keys))
            owned(secrets)
            return contained(folder, used)

        if not self.one or not self.litellm:
            urls = [engine.url for engine in self.engines]
            self.litellm.append(doors.litellm("balanced", urls, "double", home, before=before))
        # Where HAProxy looks for them.
        for kind, socket in (("sock", "listens"), ("pulse", "pulse")):
            (self.sockets / f"litellm-{name}.{kind}").unlink(missing_ok=True)
            (self.sockets / f"litellm-{name}.{kind}").symlink_to(home / "balanced/used" / socket)
        process = self.litellm[-1].process
        assert process
        return process

    def under_way(self) -> int:
        """Requests that the engines have."""
        return sum(engine.says("/under_way") for engine in self.engines)


@contextmanager
def whole_door(folder: Path, engines: int = 1, one: bool = False) -> Iterator[WholeDoor]:
    """Until the end; `one`: with one LiteLLM in both places."""
    with place(folder) as home:
        doubles = [Engine() for _ in range(engines)]
        try:
            door = WholeDoor(home, doubles, one)
            try:
                yield door
            finally:
                door.end()
        finally:
            for double in doubles:
                double.kill()
