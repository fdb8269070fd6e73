"""Two nodes of pyinfra's @fake connector, whose engines and proxy are doubles of this machine: whole runs of the bench.

What is deployed is in a file: a deploy (the real deploy.py) writes it, and the bench's own verb is told by it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operations.plan.history import record
from tests.deploy.fake import contents_of, look, planned, quiet
from tests.plan.samples import ROOT, survey

_INVENTORY = """
import json, os, re, signal, sys, time
from pathlib import Path
_here = Path({here!r})
_known = json.loads((_here / "answers.json").read_text())
_words = [word for word in sys.argv if word.startswith("topology=")]
_topology = _words[-1].split("=")[1] if _words else {declared!r}
if "deploy.py" in sys.argv:
    with (_here / "deploys").open("a") as _file:
        _file.write(_topology + "\\n")
    if (_here / "slow").exists():
        time.sleep(60)
    if (_here / "broken").exists() and (_here / "broken").read_text() == _topology:
        _log = ["ValueError: no room for the KV cache"]
        _state = {{"state": {{"ActiveState": "failed", "NRestarts": "3"}}, "log": _log, "told": _log[0]}}
        for _by in _known[_topology].values():
            _by["engine.probe"] = json.dumps({{"ok": False, "problem": "refused", "listens": False, **_state}})
            _by["unit.brief"] = json.dumps(_state)
    (_here / "deployed").write_text(_topology)
else:
    _topology = (_here / "deployed").read_text()
nodes = [
    (_name, {{"fake_delay": 0, "fake_delay_jitter": 0, "ssh_user": "spark",
              "fake_responses": {{re.compile("' " + _program + " "): _answer for _program, _answer in _by.items()}}}})
    for _name, _by in _known[_topology].items()
]
"""
#: Of the recipe.
MODEL = "nemotron"
#: Small enough for many runs.
TINY = {"PROFILE": "quick", "USERS": "1 4", "REPEATS": "2", "PROMPT": "32", "ANSWER": "8"}


@dataclass(frozen=True)
class Nodes:
    """`folder` has inventory, answers, doubles' words; `runs` is where folders of runs are made."""

    folder: Path
    runs: Path

    def bench(self, **asked: str) -> subprocess.CompletedProcess[str]:
        """`tandem bench`, but for make."""
        return subprocess.run(
            self.argv, env=self.environment(asked), cwd=ROOT, capture_output=True, text=True, check=False
        )

    def begin(self, **asked: str) -> subprocess.Popen[str]:
        """The same, only begun; its words are on its stdout."""
        return subprocess.Popen(
            self.argv,
            env=self.environment(asked),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    argv = (sys.executable, "-u", "-m", "bench")

    def environment(self, asked: dict[str, str]) -> dict[str, str]:
        given = {"INVENTORY": str(self.folder / "nodes.py"), "BENCH_RUNS": str(self.runs), **asked}
        return {**os.environ, "PYINFRA_PROGRESS": "off", **given}

    @property
    def deployed(self) -> str:
        return (self.folder / "deployed").read_text()

    @property
    def deploys(self) -> list[str]:
        """In their order."""
        file = self.folder / "deploys"
        return file.read_text().split() if file.exists() else []

    def faults(self, **faults: Any) -> None:
        """What the doubles do wrong from now on."""
        (self.folder / "faults.json").write_text(json.dumps(faults))

    def requests(self, name: str) -> list[Any]:
        """What a double was asked."""
        file = self.folder / f"{name}.requests"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@contextmanager
def nodes(folder: Path, deployed: str = "replicas") -> Iterator[Nodes]:
    """As long as the body runs; `deployed` is what lies there and what is declared."""
    before = {"solo": "engine-1", "cluster": "engine-1", "replicas": "engine-1,engine-2"}
    proxies = [f"proxy-{topology}={engines}" for topology, engines in before.items()]
    with doubles(folder, "engine-1", "engine-2", *proxies) as urls:
        engines, answers = urls[:2], {}
        for topology, proxy in zip(before, urls[2:], strict=True):
            answers[topology] = _answers(topology, engines if topology == "replicas" else engines[:1], proxy)
        (folder / "answers.json").write_text(json.dumps(answers))
        (folder / "deployed").write_text(deployed)
        declared = f'\n_declared = {{"topology": {deployed!r}, "recipe": {RECIPE!r}}}\n'
        (folder / "nodes.py").write_text(_INVENTORY.format(here=str(folder), declared=deployed) + declared)
        yield Nodes(folder, folder / "runs")


def only(runs: Path) -> Path:
    """The folder of the one run that was made."""
    [found] = runs.iterdir()
    return found


def refused(two: Nodes, told: str, code: int = 1, /, **asked: str) -> None:
    """One line, and nothing else happens."""
    done = two.bench(**asked)
    assert done.returncode == code and done.stderr.count("\n") == 1 and told in done.stderr, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


RECIPE = "nemotron-3-super-nvfp4-auto"


@contextmanager
def doubles(folder: Path, *names: str) -> Iterator[list[str]]:
    """The URL of each, as long as the body runs; `NAME=UPSTREAM,UPSTREAM` is a proxy before those."""
    argv = [sys.executable, "-m", "tests.benchmark.doubles.engine", str(folder), *names]
    process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield [process.stdout.readline().strip() for _ in names]
    finally:
        process.kill()
        process.communicate()


def _answers(topology: str, engines: list[str], proxy: str) -> dict[str, dict[str, str]]:
    """By node and program: what a deploy asks, and what the bench asks."""
    plan = planned(topology=topology, recipe=RECIPE)
    served: Any = record(plan, contents_of(plan))
    found = {}
    for index, name in enumerate(each.node.name for each in plan.nodes):
        state = look(plan, name)
        units: dict[str, dict[str, str]] = {"tandem-engine": {}, "tandem-proxy": {}}
        spec = served["services"].get(name, {}).get("tandem-engine", {}).get("spec")
        if spec:
            units["tandem-engine"] = {"ActiveState": "active", "spec": spec}
        if index < len(engines):
            units["tandem-engine"]["url"] = engines[index]
        endpoint = {"url": f"{proxy}/v1", "key": "sk-double", "model": MODEL} if index == 0 else {"url": ""}
        facts = {
            "state": {"available_gib": 100.0},
            "counters": None,
            "units": units,
            "endpoint": endpoint,
            "served": served if index == 0 else {},
            "versions": {"driver": "580.95.05"},
        }
        found[name] = {
            **quiet(survey(state=state), state, {}),
            "look.bench_facts": json.dumps(facts),
            "monitoring.handed": json.dumps({"page": True}),
        }
    return found
