"""One run of pyinfra, for all its nodes: what it is to do, what it has seen, and what it has done so far."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from gevent.lock import BoundedSemaphore
from pyinfra import logger
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.host import Host
from pyinfra.api.operation import operation
from pyinfra.api.state import State
from pyinfra.context import ctx_state

from operations.plan.absence import Absence, told
from operations.plan.plan import Plan
from operations.runner.lease import Lock
from operations.runner.looking import Looks
from operations.runner.sharing import Copies
from operations.runner.started import Started
from operations.runner.stopwatch import Stopwatch
from operations.wire.answers import Proven
from operations.wire.look import Look
from operations.wire.model import GpuTrial, Vocabulary
from operations.wire.plans import Served

P = ParamSpec("P")


class Run:
    """Made once for all nodes (`this_run`), and handed to whatever has to know."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.looks, self.lock, self.clock, self.copies = Looks(), Lock(), Stopwatch(), Copies()
        self.started = Started()
        #: Nodes that can't be asked, and why.
        self._lost: dict[str, Absence] = {}
        #: What images have said that they understand, by their local names.
        self.vocabularies: dict[str, Vocabulary] = {}
        #: Starts of images that are to look for the GPU, by node: those that were not done on it as it is.
        self.trials: dict[str, list[GpuTrial]] = {}
        #: The plan that this run goes back to.
        self.back_to: Served | None = None
        #: What the gate of answers has found, by models' names.
        self.answers: dict[str, Proven] = {}
        #: What had served before this plan, where its models are to be asked.
        self.past: list[Served] | None = None
        #: Held while the plan is made.
        self.settling = BoundedSemaphore()
        self._plan: Plan | None = None
        self._made: dict[str, str] = {}
        self._making = BoundedSemaphore()

    @property
    def is_settled(self) -> bool:
        """Whether there is a plan. Some verbs have none."""
        return self._plan is not None

    @property
    def plan(self) -> Plan:
        """What each node shall have."""
        assert self._plan is not None, "the preflight makes the plan"
        return self._plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        self._plan = plan

    @property
    def head(self) -> Host:
        """The inventory's first node: itself, not pyinfra's `host`, which is another one in each greenlet."""
        return next(iter(self.state.inventory))

    def node(self, name: str) -> Host:
        """A node of the inventory."""
        return self.state.inventory.get_host(name)

    @property
    def answering(self) -> list[Host]:
        """The nodes that can be asked, in the inventory's order."""
        return [host for host in self.state.inventory if host.connected and host.name not in self._lost]

    @property
    def absent(self) -> list[Absence]:
        """The others."""
        answering = self.answering
        return [
            self._lost.get(host.name) or Absence(host.name, "was left out", "leave out --limit and --exclude")
            for host in self.state.inventory
            if host not in answering
        ]

    def lose(self, host: Host, absence: Absence) -> None:
        """A node can't be asked, from now on."""
        self._lost[host.name] = absence
        logger.error(told(absence))

    def speaks(self, host: Host) -> bool:
        """Whether it is this node's turn to do what is done once: the first that answers."""
        return host.name == next((each.name for each in self.answering), "")

    def look(self, host: Host) -> Look:
        """The state of a node, as the steps compare it with the plan."""
        return self.looks.at(host, self.plan)

    def once(self, what: str, make: Callable[[], str]) -> str:
        """What several nodes get: the first one that asks makes it, and the others wait for that."""
        with self._making:
            if what not in self._made:
                self._made[what] = make()
            return self._made[what]


#: The one thing that outlives a call: pyinfra connects before it reads deploy.py, and reads deploy.py, or a verb, once
#: for each node, side by side. Its state alone is the same everywhere.
_runs: dict[State, Run] = {}


def this_run() -> Run:
    """The run that pyinfra is in. For where a run begins: deploy.py, a verb, the connecting; others are handed it."""
    state: State = ctx_state.get()
    if state not in _runs:
        _runs[state] = Run(state)
    return _runs[state]


def step(function: Callable[Concatenate[Run, P], Iterator[PyinfraCommand]]) -> Callable[..., Any]:
    """An operation of a step: whatever it runs makes the looks of all nodes stale, and runs only under the lock."""

    @wraps(function)
    def guarded(run: Run, *args: P.args, **kwargs: P.kwargs) -> Generator[PyinfraCommand, None, None]:
        for command in run.lock.guarded(function(run, *args, **kwargs)):
            yield command
            run.looks.forget()

    return operation()(guarded)
