"""A node with models on demand: the real program of files/ondemand, as a plan has it, on ports of loopback.

systemd is a double: a script in the place of `systemctl`, and a thread that starts and ends engines as it was asked.
Engines are doubles as well: each refuses connections until it has loaded, and answers as late as it is told to.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.node.shipped import part
from tests.plan.test_models import planned, text
from tests.support.ports import free_port
from tests.support.serving import Quiet
from tests.support.waiting import comes

TINY = "lab-tiny-llama"
KEY = "sk-of-this-test"
#: Seconds for which an engine that has ended is put away (ExecStopPost= removes its container): systemd says
#: `deactivating` meanwhile.
PUT_AWAY_S = 0.2
#: The program, with times of a test's.
RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import memory, ondemand, phases, standing, tenants
home = Path(sys.argv[1])
memory.MEMINFO, ondemand.STATE = home / "meminfo", home / "run/says.json"
phases.kept.__defaults__ = (home / "starts.json",)
ondemand.LOOK_S, ondemand.PAUSE_S, standing.LONG_S, ondemand.RETURNS_S = 0.05, 2.0, 0.3, 0.5
tenants.REST_S, tenants.KEPT_S = 0.4, 0.8
sys.exit(ondemand.main())
"""
_SYSTEMCTL = """#!/bin/sh
verb=$1
shift
if [ "$verb" != show ]; then
    echo "$verb $*" >>{home}/asked
    exit 0
fi
between=
for each in "$@"; do
    case $each in --*) continue ;; esac
    printf "$between"
    cat "{home}/${{each%.service}}.state"
    between="\\n"
done
"""


class EngineDouble:
    """One model's engine, and its unit."""

    def __init__(self, home: Path, unit: str) -> None:
        self.unit, self.port, self.state_file = unit, free_port(), home / f"{unit}.state"
        #: Seconds of its load; how many loads end in a crash yet.
        self.load_s, self.crashes = 0.2, 0
        self.starts = self.stops = self.restarts = 0
        self.server: ThreadingHTTPServer | None = None
        #: Answers that were cut off because it was ended; and whether those end that are under way.
        self.killed, self.released = 0, threading.Event()
        self.says("inactive")

    def says(self, active: str) -> None:
        lines = f"ActiveState={active}\nNRestarts={self.restarts}\nInvocationID={self.starts}\n"
        aside = self.state_file.with_suffix(".part")
        aside.write_text(lines)
        aside.rename(self.state_file)

    def start(self) -> None:
        self.starts += 1
        self.says("active")
        if self.crashes:
            self.crashes -= 1
            self._is_put_away(PUT_AWAY_S)
            self.restarts += 1
            self.says("activating")
            return
        threading.Timer(self.load_s, self._listen, [self.starts]).start()

    def _listen(self, start: int) -> None:
        if start != self.starts or "=active" not in self.state_file.read_text():
            return
        double = self

        class Handler(Quiet):
            def do_GET(self) -> None:
                _, _, seconds = self.path.partition("?")
                ends = time.monotonic() + float(seconds or 0)
                while time.monotonic() < ends and not double.released.is_set():
                    if double.server is None:
                        double.killed += 1
                        return
                    time.sleep(0.02)
                with suppress(OSError):
                    self.reply(b"answered")

            def do_POST(self) -> None:
                status, kind, body = double.says_to(self.path, self.sent())
                # A stream has no length.
                with suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Type", kind)
                    self.end_headers()
                    self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, args=[0.02], daemon=True).start()

    def says_to(self, path: str, asked: dict[str, Any]) -> tuple[int, str, bytes]:
        """What a request is answered: status, content-type, body."""
        if asked.get("odd"):
            return 400, "application/json", b'{"error": {"message": "too long for this model", "type": "BadRequest"}}'
        if not asked.get("stream"):
            return 200, "application/json", json.dumps({"choices": [], "model": asked["model"]}).encode()
        if path == "/v1/messages":
            events = b"event: content_block_delta\ndata: {}\n\nevent: message_stop\ndata: {}\n\n"
            return 200, "text/event-stream", events
        if path == "/v1/responses":
            names = ("response.created", "response.completed")
            said = "".join(f"event: {each}\ndata: {json.dumps({'type': each})}\n\n" for each in names)
            return 200, "text/event-stream", said.encode()
        chunk = json.dumps({"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}).encode()
        return 200, "text/event-stream", b"data: " + chunk + b"\n\ndata: [DONE]\n\n"

    def stop(self, put_away_s: float = PUT_AWAY_S) -> None:
        self.stops += 1
        self.restarts = 0
        self._is_put_away(put_away_s)
        self.says("inactive")

    def ends(self) -> None:
        """Of itself, so systemd starts it anew."""
        self._is_put_away(PUT_AWAY_S)
        self.restarts += 1
        self.start()

    def _is_put_away(self, seconds: float) -> None:
        self.says("deactivating")
        self._hangs_up()
        time.sleep(seconds)

    def _hangs_up(self) -> None:
        server, self.server = self.server, None
        if server:
            server.shutdown()
            server.server_close()

    @contextmanager
    def serving(self) -> Iterator[list[str]]:
        """An answer is under way for all of this; it is in the list behind it."""
        got, under_way = list[str](), part("fallback", "under_way").UnderWay("127.0.0.1", self.port)
        thread = threading.Thread(target=lambda: got.append(self.answer(60)))
        self.released.clear()
        thread.start()
        assert comes(under_way.any)
        try:
            yield got
        finally:
            self.released.set()
            thread.join()

    def answer(self, seconds: float = 0.0) -> str:
        """What a door gets of it."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/chat?{seconds}", timeout=30) as response:
            return str(response.read().decode())


class DeskDouble:
    """A node with so many GiB; `needs`: of each model on demand, `stays`: of one that stays loaded."""

    def __init__(self, home: Path, total_gib: float, needs: dict[str, float], stays: float = 0.0, idle_s: float = 60.0):
        self.home, self.port = home, free_port()
        (home / "bin").mkdir()
        (home / "key").write_text(f"{KEY}\n")
        double = home / "bin/systemctl"
        double.write_text(_SYSTEMCTL.format(home=home))
        double.chmod(0o755)
        (home / "asked").touch()
        self.engines = {name: EngineDouble(home, f"tandem-engine-{name}") for name in needs}
        self.memory(total_gib, total_gib)
        on_demand = {"recipe": TINY, "topology": "solo", "nodes": ["spark-1"], "on_demand": True, "memory_gib": 8}
        plan = planned({name: {**on_demand, "served_name": name} for name in needs})
        for file in plan.head.services["tandem-ondemand"].files:
            if file.path.endswith(".py"):
                (home / file.path.rpartition("/")[2]).write_text(file.content)
        wanted: dict[str, Any] = json.loads(text(plan.head, "tandem-ondemand", "ondemand.json"))
        wanted |= {"address": "127.0.0.1", "port": self.port, "key": str(home / "key"), "floor_mib": 1024}
        wanted["stay_mib"] = round(stays * 1024)
        for name, engine in self.engines.items():
            mine = wanted["models"][engine.unit]
            mine |= {"address": "127.0.0.1", "port": engine.port, "url": f"http://127.0.0.1:{engine.port}/health"}
            mine |= {"need_mib": round(needs[name] * 1024), "idle_s": idle_s}
        (home / "ondemand.json").write_text(json.dumps(wanted))
        self.token = part("ondemand", "wishes").shown(KEY)
        self.on, self.process = True, subprocess.Popen(["true"])
        self.begin()
        self.thread = threading.Thread(target=self._systemd, daemon=True)
        self.thread.start()

    def begin(self) -> None:
        """The program, from nothing."""
        self.end()
        path = f"{self.home}/bin:{os.environ['PATH']}"
        argv = [sys.executable, "-B", "-c", RUN, str(self.home)]
        self.process = subprocess.Popen(argv, env={**os.environ, "PATH": path})
        assert comes(lambda: socket.socket().connect_ex(("127.0.0.1", self.port)) == 0)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def memory(self, total_gib: float, available_gib: float) -> None:
        """What the kernel says."""
        kib = [round(gib * 1048576) for gib in (total_gib, available_gib)]
        (self.home / "meminfo").write_text(f"MemTotal: {kib[0]} kB\nMemAvailable: {kib[1]} kB\n")

    def _systemd(self) -> None:
        done = 0
        while self.on:
            asked = (self.home / "asked").read_text().splitlines()
            for line in asked[done:]:
                words = line.split()
                engine = self.engines[words[-1].removesuffix(".service").removeprefix("tandem-engine-")]
                if words[0] in ("start", "stop"):
                    engine.start() if words[0] == "start" else engine.stop()
            done = len(asked)
            time.sleep(0.01)

    def ask(self, name: str, method: str = "POST", token: str | None = None) -> dict[str, Any]:
        """What a door is told."""
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        url = f"http://127.0.0.1:{self.port}/tandem-engine-{name}"
        with urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers), timeout=30) as said:
            found: dict[str, Any] = json.load(said)
        return found

    def loads(self, *names: str) -> None:
        """Each is asked for until it has loaded."""
        for name in names:
            assert comes(lambda name=name: self.ask(name)["state"] == "loaded"), (name, self.ask(name))  # type: ignore[misc]

    @property
    def there(self) -> list[str]:
        """Models whose engines listen."""
        return [name for name, engine in self.engines.items() if engine.server]

    def state(self) -> dict[str, Any]:
        """What people are told."""
        models: dict[str, Any] = json.loads((self.home / "run/says.json").read_text())["models"]
        return {unit.removeprefix("tandem-engine-"): said for unit, said in models.items()}


@contextmanager
def desk(home: Path, total_gib: float, needs: dict[str, float], **more: float) -> Iterator[DeskDouble]:
    """One that ends with the test."""
    made = DeskDouble(home, total_gib, needs, **more)
    try:
        yield made
    finally:
        made.on = False
        made.thread.join()
        made.end()
        for engine in made.engines.values():
            engine.stop(0)


def refusal(made: DeskDouble, name: str, token: str) -> int:
    """The status with which somebody is turned away."""
    try:
        made.ask(name, token=token)
    except urllib.error.HTTPError as error:
        return error.code
    return 200
