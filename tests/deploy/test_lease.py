"""The deploy's lock: the real program that holds it, over a channel that is a pipe; and what a deploy does without."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from gevent import subprocess
from pyinfra.api.exceptions import DeployError

from operations.plan.absence import Absence
from operations.runner import lease, tether
from operations.runner.patience import fail
from operations.runner.run import Run
from operations.steps import lock
from tests.deploy.fake import NAMES, as_planned, deploy, fresh, planned
from tests.plan.samples import ROOT

PROGRAM = """
import json, sys
from pathlib import Path
from operations.node import beats, lock
sys.stdin.buffer.readline()
lock.PLACE = Path(sys.argv[1])
beats.SILENCE_S = float(sys.argv[4])
print(json.dumps(lock.main(owner=sys.argv[2], what=sys.argv[3])))
"""


class PipeChannel:
    """In the place of an ssh channel: a process of this machine, which can be stopped as a network can."""

    #: Seconds without a beat after which the lock is freed. Starting the other processes may take several.
    silence_s = 60.0

    def __init__(self, place: Path, owner: str) -> None:
        self.place, self.owner, self.closed = place, owner, False

    def exec_command(self, command: str) -> None:
        asked = re.search(r" lock '(\{.*\})'$", command)
        assert asked
        what = json.loads(asked.group(1))["what"]
        argv = [sys.executable, "-c", PROGRAM, str(self.place), self.owner, what, str(self.silence_s)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)

    def makefile(self, _mode: str) -> Any:
        return self.process.stdout

    def sendall(self, data: bytes) -> None:
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise OSError from None

    def close(self) -> None:
        self.closed = True
        self.process.stdin.close()


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Any]:
    """A node whose channels are pipes; `channels` has all that were opened."""
    channels: list[PipeChannel] = []

    def open_session() -> PipeChannel:
        channels.append(PipeChannel(tmp_path / "lock", "the same" if channels else "the first"))
        return channels[-1]

    transport = SimpleNamespace(open_session=open_session)
    client = SimpleNamespace(get_transport=lambda: transport)
    yield SimpleNamespace(connector=SimpleNamespace(client=client), channels=channels, name="head")
    for channel in channels:
        channel.process.kill()
        channel.process.wait()


@pytest.fixture
def run(head: Any) -> Iterator[Run]:
    """A run with that node as its head."""
    state: Any = SimpleNamespace(inventory=[head])
    made = Run(state)
    yield made
    made.lock.release()


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """This machine has slept for so many seconds."""
    real, slept = tether.clock, [0.0]
    for module in (lease, tether):
        monkeypatch.setattr(module, "clock", lambda: real() + slept[0])
    return lambda seconds: slept.__setitem__(0, slept[0] + seconds)


def ended(channel: PipeChannel) -> None:
    assert channel.process.wait(timeout=10) == 0


def test_a_lock_is_held_as_long_as_its_beats_come(head: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tether, "BEAT_S", 0.2)
    monkeypatch.setattr(PipeChannel, "silence_s", 1)
    hold = run.lock.take(head)
    assert hold.answer["held"] and run.lock.lost() == ""
    gevent.sleep(2)
    assert run.lock.lost() == ""
    second = lease.Lease(head)
    assert second.lost().startswith("another deploy is at work: the first since 20")
    hold._tether._beats.kill()
    gevent.sleep(0)
    ended(head.channels[0])
    assert "has lost its lock (the head has let it go): somebody else may be at work; run it again" in run.lock.lost()


def test_a_deploy_and_a_bench_exclude_each_other_and_say_which(head: Any, run: Run) -> None:
    run.lock.take(head, "bench")
    assert run.lock.lost() == ""
    assert lease.Lease(head).lost().startswith("a bench is at work: the first since 20")
    assert lease.Lease(head, "bench").lost().startswith("another bench is at work: the first since 20")
    run.lock.release()
    ended(head.channels[0])
    run.lock.take(head)
    assert lease.Lease(head, "bench").lost().startswith("a deploy is at work: the same since 20")


def test_a_machine_that_has_slept_asks_before_its_next_command(
    head: Any, run: Run, jump: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tether, "BEAT_S", 0.2)
    run.lock.take(head)
    jump(300)
    # The head has not noticed: it confirms the lock at once.
    assert run.lock.lost() == ""
    monkeypatch.setattr(lease, "SILENCE_S", 1)
    jump(300)
    head.channels[0].process.send_signal(signal.SIGSTOP)
    assert "has lost its lock (the head has not confirmed it for 30" in run.lock.lost()
    head.channels[0].process.send_signal(signal.SIGCONT)
    gevent.sleep(0.2)
    assert "has lost its lock" in run.lock.lost(), "once lost it stays lost"


def test_no_command_runs_without_the_lock(head: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "state", SimpleNamespace(is_executing=True))
    run.lock.take(head)
    commands = run.lock.guarded(iter([fail("first"), fail("second"), fail("third")]))
    assert _said(next(commands)) == "first"
    head.channels[0].process.kill()
    head.channels[0].process.wait()
    gevent.sleep(0.1)
    assert "has lost its lock" in _said(next(commands))
    assert list(commands) == []


def test_a_verb_that_removes_things_waits_for_a_deploy(head: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tether, "BEAT_S", 0.2)
    head.connected = True
    deploy_of_another = lease.Lease(head)
    with pytest.raises(DeployError, match=r"another deploy is at work: the first since 20"), lock.taken(run):
        raise AssertionError("it went on")
    deploy_of_another.close()
    ended(head.channels[0])
    with lock.taken(run):
        assert len(run.lock._held) == 1 and run.lock.lost() == ""
    assert run.lock._held == []
    ended(head.channels[-1])
    head.connected = False
    # A head that is off holds no lock, and nobody can deploy.
    run.lose(head, Absence("head", "does not answer", "switch it on", dark=True))
    with lock.taken(run):
        assert run.lock._held == []
    # One that lets only this machine not in may well be at work for another.
    run.lose(head, Absence("head", "refuses the login", "ssh-copy-id head"))
    with (
        pytest.raises(DeployError, match=r"a deploy is at work: head refuses the login: ssh-copy-id head"),
        lock.taken(run),
    ):
        raise AssertionError("it went on")


def test_prune_removes_nothing_while_a_deploy_is_at_work(tmp_path: Path) -> None:
    states = as_planned(topology="cluster")
    pruned: dict[str, Any] = {"unit.old_images": {"images": [], "removed": [], "problems": []}}
    verb = "operations/verbs/prune.py"
    outcome = deploy(tmp_path, states, "-y", programs=pruned, file=verb)
    assert "every image of Tandem's is needed" in outcome.text, outcome.text
    outcome = deploy(tmp_path, states, "-y", programs=pruned, file=verb, inventory=BUSY)
    assert "another deploy is at work (a test)" in outcome.text and "Traceback" not in outcome.text
    assert "is needed" not in outcome.text


def _said(command: Any) -> str:
    """The text that a command fails with."""
    said: list[str] = []
    assert command.function(None, SimpleNamespace(log_styled=lambda text, fg: said.append(text))) is False
    return said[0]


def test_a_lock_whose_connection_was_renewed_is_taken_again(head: Any, run: Run) -> None:
    hold = run.lock.take(head)

    def renew(_state: Any, where: Any) -> bool:
        where.channels[0].close()
        asked = gevent.spawn(run.lock.lost)
        gevent.sleep(0.3)
        # Whoever asks meanwhile waits.
        assert not asked.ready()
        return True

    assert run.lock.across(renew)(None, head)  # type: ignore[arg-type]
    assert run.lock.lost() == "" and len(head.channels) > 1 and hold.answer["held"]


def test_a_lock_that_somebody_else_had_meanwhile_is_lost(head: Any, run: Run, tmp_path: Path) -> None:
    run.lock.take(head)

    def renew(_state: Any, where: Any) -> bool:
        where.channels[0].close()
        ended(where.channels[0])
        other = PipeChannel(tmp_path / "lock", "another")
        other.exec_command('python3 -c ... lock \'{"what": "deploy"}\'')
        other.sendall(b"programs\n")
        assert json.loads(other.process.stdout.readline())["held"]
        other.close()
        ended(other)
        return True

    assert run.lock.across(renew)(None, head)  # type: ignore[arg-type]
    assert "somebody else has taken it" in run.lock.lost()


BUSY = """
from types import SimpleNamespace
from operations.runner import lease
from operations.steps import lock

class IsRefused:
    where = None
    def __init__(self, where, what):
        pass
    def lost(self):
        return "another deploy is at work (a test)"
    def close(self):
        pass

lock._head = lambda _run: "the head"
lease.Lease = IsRefused
"""

LOST = """
from operations.runner import lease

class Asked:
    times = 0

def _lost(_lock):
    Asked.times += 1
    return "this deploy has lost its lock (a test)" if Asked.times > 5 else ""

lease.Lock.lost = _lost
"""


def test_a_deploy_that_has_lost_its_lock_changes_nothing_more(tmp_path: Path) -> None:
    plan = planned(topology="cluster")
    outcome = deploy(tmp_path, [fresh(plan, name) for name in NAMES], "-y", inventory=LOST)
    assert outcome.refused
    # Of the five that it may run some are Python's, which are not printed.
    assert 0 < len(outcome.commands) <= 5, outcome.commands
    assert not [command for _, command in outcome.commands if "systemctl start" in command]
    assert "this deploy has lost its lock (a test)" in outcome.text and "Traceback" not in outcome.text


def test_asking_what_would_change_needs_no_lock(tmp_path: Path) -> None:
    plan = planned(topology="cluster")
    outcome = deploy(tmp_path, [fresh(plan, name) for name in NAMES], "--dry", inventory=LOST)
    assert outcome.code == 0 and "has lost its lock" not in outcome.text


def test_down_takes_nothing_away_without_the_lock(tmp_path: Path) -> None:
    states = as_planned(topology="cluster")
    units = {
        "unit.services": {"units": {unit: {"UnitFileState": "enabled"} for unit in states[0]["services"]["units"]}}
    }
    verb = "operations/verbs/down.py"
    deploy(tmp_path, states, "-y", programs=units, file=verb).position(1, "disable --now --quiet")
    outcome = deploy(tmp_path, states, "-y", programs=units, file=verb, inventory=LOST.replace("> 5", "> 0"))
    assert outcome.refused and outcome.commands == []
    assert "has lost its lock" in outcome.text
    busy = BUSY.replace('"the head"', f'SimpleNamespace(name="{NAMES[0]}")')
    outcome = deploy(tmp_path, states, "-y", programs=units, file=verb, inventory=busy)
    assert outcome.refused and outcome.commands == []
    assert "another deploy is at work (a test)" in outcome.text
