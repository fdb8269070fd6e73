"""A run of pyinfra beside the measurement: it holds the lock on the head, and asks the nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from bench.process import ROOT
from bench.words import why
from operations.plan.config.refusal import Finding, Refusal
from operations.wire.bench import Declared, Told
from operations.wire.unit import Endpoint, UnitState

ENVIRONMENT = {**os.environ, "PYINFRA_PROGRESS": "off"}


@dataclass(frozen=True)
class Node:
    """What a node has said of itself (operations/node/look/bench_facts.py)."""

    state: Mapping[str, Any]
    counters: Mapping[str, int] | None
    units: Mapping[str, UnitState] = field(default_factory=dict)
    endpoint: Endpoint = field(default_factory=Endpoint)
    served: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


def data_words(data: str) -> list[str]:
    """DATA as pyinfra takes it."""
    return [word for pair in data.split() for word in ("--data", pair)]


class Ended(Refusal):
    """The run of pyinfra has ended by itself; `code`: how, as the command documents it."""

    def __init__(self, code: int, problem: str) -> None:
        super().__init__(Finding("nodes", problem, "`tandem status` asks the same nodes"))
        self.code = code


class Session:
    """Holds the lock from its first word to its end. Raises Refusal where it can't be had, or is lost."""

    def __init__(self, inventory: str, data: str) -> None:
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it lives as long as the session)
        verb = ["-y", inventory, "operations/verbs/bench.py", *data_words(data)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pyinfra", *verb],
            cwd=ROOT,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            text=True,
            start_new_session=True,
        )
        try:
            greeting = self._read()
            if greeting["problem"]:
                raise _no(greeting["problem"], "run the same again: it goes on where it was")
        except BaseException:
            self.close()
            raise
        self.declared: Declared = greeting["declared"]
        self.ssh: Mapping[str, Any] | None = greeting["ssh"]
        self.head: str = greeting["head"]

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the lock go."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def deployment(self) -> dict[str, Node]:
        """Everything, of each node that answers."""
        return self._ask(deployment=True)

    def states(self, nodes: Sequence[str], urls: Mapping[str, str]) -> dict[str, Node]:
        """How these nodes are, and what their engines have counted; `urls` as the nodes themselves ask them."""
        return self._ask(nodes=list(nodes), urls=dict(urls))

    def tell_page(self, text: str) -> list[str]:
        """Hand over what pages say of benches (bench/advise/page.py); the nodes that have one and have taken it. Raises
        Refusal where one could not.
        """
        answers = self._order(page=text)
        for name, said in answers.items():
            if "problem" in said:
                raise Refusal(Finding(name, said["problem"], "`tandem status` asks the same nodes"))
        return [name for name, said in answers.items() if said.get("page")]

    def _ask(self, **order: Any) -> dict[str, Node]:
        return {name: Node(**said) for name, said in self._order(**order).items()}

    def _order(self, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        answer = self._read()
        if "problem" in answer:
            raise _no(answer["problem"], "run the same again: it goes on where it was")
        nodes: dict[str, Any] = answer["nodes"]
        return nodes

    def _read(self) -> Told:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                told: Told = json.loads(line)
                return told
        raise self._ended()

    def _ended(self) -> Refusal:
        code = self._process.wait()
        self._words.seek(0)
        return Ended(max(code, 1), why(self._words.read()))


def _no(problem: str, remedy: str) -> Refusal:
    return Refusal(Finding("nodes", problem, remedy))
