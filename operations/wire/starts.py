"""Starts of engines: by which lines their phases are known, and what is kept of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    # Python 3.10 has it not, and nothing here is looked at while a program runs.
    from typing import NotRequired


class Mark(TypedDict):
    """A line of an engine's log that ends a phase (operations/plan/engines/starts.py). `was`: the phase that has
    passed, where that is not the one before; `then`: the one that begins.
    """

    pattern: str
    was: NotRequired[str]
    then: NotRequired[str]


class Phases(TypedDict):
    """A start by its log so far (operations/node/unit/phases.py).

    `phases`: seconds by name, in the order in which they came; `now`: the one it is in, `since` when (by the clock of
    the lines); `spans`: [name, from, to]; `gib`: what the engine says of its weights, 0: nothing; `loader`: by what
    they are loaded where Tandem has chosen that, or empty.
    """

    phases: dict[str, float]
    now: str
    since: float
    spans: list[tuple[str, float, float]]
    gib: float
    loader: str


class Start(TypedDict):
    """One start that is over, as /var/lib/tandem/starts.json has it.

    `when` it began (seconds since 1970); `phases` in seconds; `gib`: weights, by the engine's word; `read_gib`: what
    the node has read from disks while they were loaded (a warm start reads little); `ended`: empty where it has come
    to serve, else the phase in which it ended, and `why`. `blamed`: the loader that this is held against, or empty.
    """

    unit: str
    spec: str
    recipe: str
    when: float
    phases: dict[str, float]
    gib: float
    read_gib: float
    loader: str
    ended: str
    why: str
    blamed: str


class StartSpec(TypedDict):
    """starts.json beside an engine: what files/engine/starts.py is told. `url`: what answers once the model is loaded;
    `faults`: loader -> pattern of its own words in a log.
    """

    unit: str
    spec: str
    recipe: str
    url: str
    marks: list[Mark]
    faults: dict[str, str]


class LoaderChoice(TypedDict):
    """A way to load weights: flags for the engine, and the Python package that it needs, in which version at least."""

    name: str
    package: str
    at_least: str
    flags: list[str]


class Began(TypedDict):
    """A start that goes on, as /run/tandem/UNIT.start.json has it. `when` it began, in seconds since 1970; `since`: the
    same by the clock that nobody can set (time.monotonic), as the journal's lines have it.
    """

    unit: str
    spec: str
    recipe: str
    invocation: str
    when: float
    since: float


class StartsTold(TypedDict):
    """What a node says of the starts of its engines (operations/node/unit/starts.py)."""

    starts: list[Start]
    under_way: dict[str, str]
