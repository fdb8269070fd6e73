"""The canary as a whole, as it runs on a node, with the node's own commands played by scripts."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from operations.node.look import status
from operations.node.unit import brief, services
from tests.node.shipped import FILES, load, part
from tests.support.ports import free_port
from tests.support.waiting import until

node = part("canary", "node")
proxy = part("canary", "proxy")

#: The proxy's liveliness, by a program that can be stopped: no LiteLLM is up behind it.
PROXY = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503)
        self.end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import canary, node
canary.STATE = Path(sys.argv[2])
node.CGROUPS = Path(sys.argv[3])
canary.main()
"""


#: What systemctl says, of each unit that it is asked for.
SAYS = """
for unit in $(echo "$*" | grep -o 'tandem-[^ ]*'); do
echo ActiveState={state}; echo InvocationID={start}; echo
done
"""


def script(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


class Node:
    """A node with a proxy, and with engines that take connections and answer none; `engines`: what is said of each."""

    def __init__(self, home: Path, **engines: dict[str, Any]) -> None:
        self.home, self.state, self.kills = home, home / "run/canary.json", home / "kills"
        commands = home / "bin"
        commands.mkdir()
        script(commands, "systemctl", SAYS.format(state="active", start="one"))
        kill = f'date +%s.%N | sed "s/^/$2 /" >>{self.kills}'
        script(commands, "docker", f'[ "$1" = inspect ] && exec echo 12ab\n{kill}')
        self.used = home / "cgroups/system.slice/docker-12ab.scope/cpu.stat"
        self.used.parent.mkdir(parents=True)
        self.used.write_text("usage_usec 7000000\n")
        script(commands, "ip", "echo '[]'")
        script(commands, "ping", f"[ ! -e {home}/away ]")
        self.hung = socket.create_server(("127.0.0.1", 0))
        port = free_port()
        self.proxy = subprocess.Popen([sys.executable, "-c", PROXY, str(port)], stderr=subprocess.DEVNULL)
        program = home / "canary"
        shutil.copytree(FILES / "canary", program, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(FILES.parent / "operations/node/door/speaking.py", program)
        engine = {
            "url": f"http://127.0.0.1:{self.hung.getsockname()[1]}",
            "model": "m",
            "answers": "chat",
            "acts": True,
            "deadline_s": 30.0,
            "silence_s": 90.0,
            "mute_s": 90.0,
            "start_s": 600.0,
            "signs": {"path": "/metrics", "pattern": "x"},
            "meeting": None,
            "peers": {},
        }
        units = {f"tandem-{name.replace('_', '-')}": engine | more for name, more in engines.items()}
        wanted = {"engines": units, "proxy": f"http://127.0.0.1:{port}", "litellm": {}, "rails": {}}
        (program / "canary.json").write_text(json.dumps(wanted))
        argv = [sys.executable, "-B", "-c", RUN, str(program), str(self.state), str(home / "cgroups")]
        path = f"{commands}:{os.environ['PATH']}"
        self.canary = subprocess.Popen(argv, env={**os.environ, "PATH": path}, stderr=subprocess.PIPE, text=True)

    def told(self) -> dict[str, Any]:
        """What `tandem status` would read."""
        return dict(json.loads(self.state.read_text())) if self.state.exists() else {}

    def end(self) -> None:
        self.hung.close()
        for process in (self.canary, self.proxy):
            process.kill()
            process.wait()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, engine={"peers": {"spark-2": "10.0.0.12"}})
    yield made
    made.end()


def test_a_proxy_that_hangs_is_killed_in_four_seconds_beside_an_engine_that_hangs(machine: Node) -> None:
    until(lambda: machine.told(), 5)
    time.sleep(4)
    assert not machine.kills.exists()
    machine.proxy.send_signal(signal.SIGSTOP)
    stopped = time.time()
    until(lambda: machine.kills.exists() and machine.kills.read_text().endswith("\n"), 12)
    what, when = machine.kills.read_text().split()[:2]
    assert what == "tandem-proxy"
    assert float(when) - stopped < 4
    until(lambda: "no sign of life for 2 s" in machine.told()["killed"].get("proxy", ""), 3)


def test_a_node_that_is_away_is_told_within_two_seconds_and_until_it_is_back(machine: Node) -> None:
    until(lambda: machine.told(), 5)
    assert machine.told()["away"] == {}
    (machine.home / "away").touch()
    until(lambda: machine.told()["away"], 2.5)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", machine.told()["away"]["spark-2"])
    (machine.home / "away").unlink()
    until(lambda: not machine.told()["away"], 2.5)


def test_its_file_says_by_its_time_that_a_canary_still_looks(machine: Node) -> None:
    until(lambda: machine.told(), 5)
    time.sleep(3)
    was = machine.state.read_text()
    os.utime(machine.state, (1.0, 1.0))
    until(lambda: time.time() - machine.state.stat().st_mtime < 5, 3)
    assert machine.state.read_text() == was
    machine.state.unlink()
    until(machine.told, 3)


def test_of_two_engines_each_is_judged_by_its_own_nodes(tmp_path: Path) -> None:
    (tmp_path / "away").touch()
    soon = {"deadline_s": 0.5, "silence_s": 1.0, "start_s": 4.0}
    machine = Node(tmp_path, engine_a={**soon, "peers": {"spark-2": "10.0.0.12"}}, engine_b=soon)
    try:
        until(lambda: "engine-b" in machine.told().get("killed", {}), 30)
        # Without its other rank the one can't answer; that is no word on the other.
        assert machine.told()["problems"]["engine-a"] == "is not judged while spark-2 is away"
        assert "engine-a" not in machine.told()["killed"]
        # The canary tells of a kill before docker has done it.
        until(lambda: machine.kills.exists() and machine.kills.read_text().endswith("\n"), 10)
        assert {line.split()[0] for line in machine.kills.read_text().splitlines()} == {"tandem-engine-b"}
        (tmp_path / "away").unlink()
        until(lambda: "engine-a" in machine.told()["killed"], 30)
    finally:
        machine.end()


def test_nothing_is_left_beside_the_program(machine: Node) -> None:
    until(lambda: machine.told(), 5)
    assert not (machine.home / "canary/__pycache__").exists()


def test_a_command_that_hangs_or_is_not_there_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert node.run(["sleep", "60"], 0.1) is None
    assert node.run(["no-such-program"]) is None
    script(tmp_path, "docker", "exec sleep 60")
    script(tmp_path, "systemctl", "exec sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(node, "KILL_S", 0.1)
    assert not node.kill("tandem-engine")
    monkeypatch.setattr(node.run, "__defaults__", (0.1,))
    assert node.Units().invocation("tandem-engine") is None


def test_systemd_is_asked_for_all_units_at_once_and_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for state, start, said in (
        ("active", "one", "one"),
        ("reloading", "one", "one"),
        ("activating", "one", ""),
        ("inactive", "", ""),
    ):
        script(tmp_path, "systemctl", SAYS.format(state=state, start=start))
        assert node.Units().invocation("tandem-engine") == said
    # Others' words would be taken for a unit's of which nothing is said.
    for silent in ("echo Failed to connect to bus >&2; exit 1", "echo ActiveState=active"):
        script(tmp_path, "systemctl", silent)
        units = node.Units()
        units.invocation("tandem-engine")
        assert units.invocation("tandem-proxy") is None
    monkeypatch.setattr(node, "HOLDS_S", 3600.0)
    script(tmp_path, "systemctl", SAYS.format(state="active", start="one"))
    units = node.Units()
    assert [units.invocation(unit) for unit in ("tandem-engine", "tandem-proxy")] == ["one", "one"]
    script(tmp_path, "systemctl", SAYS.format(state="active", start="two"))
    assert units.invocation("tandem-engine") == "one"
    monkeypatch.setattr(node, "HOLDS_S", 0.0)
    assert units.invocation("tandem-engine", afresh=True) == units.invocation("tandem-proxy") == "two"
    script(tmp_path, "systemctl", SAYS.format(state="active", start="three"))
    assert units.invocation("tandem-engine") == "three"


@pytest.mark.parametrize(
    ("says", "said"), [("exec sleep 60", None), ("sleep 1; " + SAYS.format(state="active", start="one").strip(), "one")]
)
def test_all_wait_together_for_a_systemd_that_hangs_or_is_slow(
    says: str, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    units = node.Units()
    script(tmp_path, "systemctl", SAYS.format(state="active", start="one"))
    assert units.invocation("tandem-engine") == "one"
    monkeypatch.setattr(node.run, "__defaults__", (1.5,))
    script(tmp_path, "systemctl", says)
    begun = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(units.invocation, "tandem-engine", afresh=True) for _ in range(8)]
        assert [each.result() for each in asked] == [said] * 8
    # One by one it would be eight.
    assert time.monotonic() - begun < 5


def test_a_silent_systemd_is_not_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asks: list[object] = []
    monkeypatch.setattr(node, "run", lambda argv: asks.append(argv))
    units = node.Units()
    assert [units.invocation("tandem-engine", afresh=True) for _ in range(5)] == [None] * 5
    assert len(asks) == 1


class Systemd:
    """A systemd that says `one`, and `now` where it is asked afresh, after `slow_s` seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now: str, slow_s: float = 0.0) -> None:
        self.now, self.slow_s = now, slow_s
        monkeypatch.setattr(node, "invocation", self)

    def __call__(self, _: str, afresh: bool = False) -> str:
        time.sleep(self.slow_s if afresh else 0)
        return self.now if afresh else "one"


def refused() -> Any:
    """The watch over a proxy that was up and is not there; it has been asked."""
    watch = proxy.Proxy(f"http://127.0.0.1:{free_port()}")
    watch.invocation, watch.is_up, watch.alive_at = "one", True, time.monotonic()
    watch.step("one")
    assert watch.question.done.wait(10)
    return watch


@pytest.mark.parametrize("now", ["one", "", "two"])
def test_what_has_ended_since_systemd_spoke_is_no_problem(
    now: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Systemd(monkeypatch, now)
    watch = refused()
    watch.step("one")
    is_silent = now == "one"
    assert ("no sign of life" in capsys.readouterr().err) == bool(watch.problem) == is_silent
    assert watch.invocation == now and watch.is_up == is_silent


def test_what_was_started_anew_while_it_was_silent_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[str] = []
    monkeypatch.setattr(node, "kill", killed.append)
    for now in ("two", "one"):
        Systemd(monkeypatch, now)
        watch = refused()
        watch.silent_since = watch.alive_at = time.monotonic() - 60
        watch.step("one")
        assert killed == ([] if now == "two" else ["tandem-proxy"])


def test_new_silence_is_judged_by_the_moment_of_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "kill", lambda _: pytest.fail("it is killed"))
    Systemd(monkeypatch, "one", slow_s=proxy.SILENCE_S)
    watch = refused()
    watch.step("one")
    assert watch.silent_since


def test_what_answers_while_systemd_is_asked_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "kill", lambda _: pytest.fail("it is killed"))
    answers = threading.Event()
    watch = proxy.Proxy("http://127.0.0.1:1")
    watch.ask = lambda: "" if answers.wait(30) else "too late"
    watch.invocation, watch.is_up, watch.alive_at = "one", True, time.monotonic()

    def invocation(_: str, afresh: bool = False) -> str:
        answers.set()
        assert watch.question.done.wait(10)
        return "one"

    monkeypatch.setattr(node, "invocation", invocation)
    watch.step("one")
    watch.question.asked = watch.alive_at = time.monotonic() - 60
    watch.step("one")
    assert watch.silent_since
    watch.step("one")
    assert not watch.problem and not watch.silent_since


@pytest.mark.parametrize(
    ("works", "canary", "health"),
    [
        (["engine"], "active", f"busy: no token in {status.ANSWER_S} s, and it shows signs of work"),
        ([], "active", "no: timed out"),
        (["proxy"], "active", "no: timed out"),
        # What it wrote last is of no time that is known.
        (["engine"], "inactive", "no: timed out"),
    ],
)
def test_an_engine_that_works_and_owes_a_token_is_busy_and_not_dead(
    monkeypatch: pytest.MonkeyPatch, works: list[str], canary: str, health: str
) -> None:
    monkeypatch.setattr(status, "ANSWER_S", 0.2)
    monkeypatch.setattr(status, "read", lambda _: json.dumps({"works": works}))
    monkeypatch.setattr(services, "unit_states", lambda units: {each: {"ActiveState": canary} for each in units})
    monkeypatch.setattr(status, "_why", lambda *_: "an old line")
    monkeypatch.setattr(brief, "main", lambda _: {"state": {}, "log": []})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        row = status._row("tandem-engine", {"ActiveState": "active", "url": url, "model": "m"})
    assert (row["health"], "why" in row) == (health, health.startswith("no"))


def test_status_knows_for_how_long_the_ranks_wait_for_each_other() -> None:
    assert load("engine/meet.py").SILENCE_S == status.MEETING_S


def test_the_canary_writes_what_works(machine: Node) -> None:
    until(lambda: machine.told().get("works") == ["proxy"], 8)
    machine.proxy.send_signal(signal.SIGSTOP)
    until(lambda: machine.told()["works"] == [], 5)


def test_status_says_what_the_canary_sees_the_widest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    state = {
        "rails": ["the rail railA has no carrier"],
        "away": {"spark-2": "2026-11-22 14:02:11"},
        "problems": {"engine": "waits for rank 1 (spark-2)", "proxy": "no answer for 3 s"},
        "killed": {"proxy": "2026-11-22 14:00:00 no sign of life for 6 s"},
    }
    monkeypatch.setattr(status, "read", lambda _: json.dumps(state))
    assert status._canary() == [
        "spark-2 does not answer over the rail since 2026-11-22 14:02:11: the cluster does not serve without it; "
        "after 12 s of that its ranks leave, and load anew when it is back",
        *(state["rails"]),
        *("engine: waits for rank 1 (spark-2)", "proxy: no answer for 3 s"),
        "proxy killed 2026-11-22 14:00:00 no sign of life for 6 s",
    ]
    # That of a canary that was started from an older plan, and none.
    for text in ('{"rails": [], "engine": "", "kills": []}', ""):
        monkeypatch.setattr(status, "read", lambda _, text=text: text)
        assert status._canary() == ["sees nothing wrong"]
