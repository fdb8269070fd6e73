"""Units of Tandem's on a node: how they are, and what they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from operations.wire import Json

if TYPE_CHECKING:
    # Python 3.10 has it not, and nothing here is looked at while a program runs.
    from typing import NotRequired


class UnitState(TypedDict, total=False):
    """How a unit is, all of it text. operations/node/unit/services.py writes it.

    The first ones are systemd's properties, under systemd's names. Then `spec`: what runs was started from it; missing
    between two starts; `asks`: its rank waits for its turn to load (unit.brief alone says so). The others are the
    labels of its container, and missing where it has none; `image` is the id of its image.
    """

    ActiveState: str
    SubState: str
    UnitFileState: str
    ActiveEnterTimestamp: str
    NRestarts: str
    Result: str
    MainPID: str
    ControlPID: str
    InvocationID: str
    spec: str
    asks: str
    topology: str
    group: str
    recipe: str
    url: str
    model: str
    pulse: str
    address: str
    image: str
    image_name: str


class Services(TypedDict):
    """Units by their names, without `.service`; `strays`: containers of Tandem's that no unit has."""

    units: dict[str, UnitState]
    strays: list[str]


class UnitLook(TypedDict):
    """A unit and the end of its log (operations/node/unit/brief.py). `told`: the line that says why it ended, or
    nothing.
    """

    state: UnitState
    log: list[str]
    told: NotRequired[str]


class Question(TypedDict):
    """What an engine or the proxy is asked: a path, a body without the model's name, a pattern of a good answer."""

    path: str
    body: Json
    pattern: str


class Probed(TypedDict, total=False):
    """Whether an engine or the proxy answers (operations/node/engine/probe.py). `seconds`: that the answer took. The
    others are there where it is not `ok`: why, whether it says at least what it serves, and a UnitLook.
    """

    ok: bool
    seconds: float
    problem: str
    listens: bool
    state: UnitState
    log: list[str]
    told: str


class Judged(TypedDict):
    """Why an engine's answer is wrong, or empty; `judged`: its words are (operations/node/engine/answer_quality.py)."""

    problem: str
    judged: bool


class Compared(TypedDict):
    """Adapters that change nothing (operations/node/engine/adapters.py); `problem`: why it is not known, or empty."""

    alike: list[str]
    problem: str


class Journal(TypedDict):
    """What a unit's log has said since the reader came last (operations/node/unit/journal.py); where to go on."""

    seen: dict[str, str]
    slow: list[str]
    invocation: str
    cursor: str


class Drained(TypedDict, total=False):
    """What is left of a LiteLLM's requests, or whether it is `alone` and goes on, or has `taken` a configuration
    (operations/node/door/drained.py).
    """

    left: int
    alone: int
    taken: int


class StatusRow(TypedDict, total=False):
    """A unit, in words for people (operations/node/look/status.py). `start`: how far an engine's start is."""

    unit: str
    state: str
    since: str
    recipe: str
    image: str
    model: str
    health: str
    start: str
    why: str


class OldImage(TypedDict):
    """An image that nothing needs; its size in 10^6 bytes."""

    name: str
    mb: int


class OldImages(TypedDict):
    """Such images, and what became of them (operations/node/unit/old_images.py)."""

    images: list[OldImage]
    removed: list[str]
    problems: list[str]


class Thing(TypedDict):
    """Something that Tandem has put on a node."""

    what: str
    bytes: int


class Everything(TypedDict):
    """All of it, what of it stays and why, and what could not be removed (operations/node/unit/everything.py)."""

    things: list[Thing]
    stays: list[str]
    problems: list[str]


class Status(TypedDict):
    """What `tandem status` says of a node (operations/node/look/status.py). `away`: node -> since when; `alone`: since
    when it serves alone, or empty.
    """

    rows: list[StatusRow]
    old_images: list[OldImage]
    topology: str
    away: dict[str, str]
    alone: str


class CanarySeen(TypedDict, total=False):
    """/run/tandem/canary.json: what the canary sees now (files/canary/canary.py writes it).

    `rails`: what they lack, in words; `away`: node -> since when; `works`: what shows signs of work; `problems` and
    `killed`: by what they are of.
    """

    rails: list[str]
    away: dict[str, str]
    works: list[str]
    problems: dict[str, str]
    killed: dict[str, str]


class Alone(TypedDict, total=False):
    """Since when a node serves alone, and why; empty: it does not (files/fallback/fallback.py writes it). `says`: where
    the fallback stands, in words.
    """

    since: str
    why: str
    says: str


class Endpoint(TypedDict, total=False):
    """Where clients find the service (operations/node/door/endpoint.py). An empty `url`: no proxy runs, and nothing
    else is there.
    """

    url: str
    address: str
    page: str
    key: str
    model: str
    authority: str


class Receiver(TypedDict):
    """One whom alarms are sent to, without secrets: its kind, `to` in words, and who has to take a connection."""

    kind: str
    to: str
    host: str
    port: int


class AlarmTold(TypedDict, total=False):
    """What became of a test alarm (operations/node/monitoring/alarm_test.py), counted by what Alertmanager calls
    receivers.
    """

    receivers: list[Receiver]
    waits: dict[str, int]
    failed: dict[str, int]
    why: str
    problem: str


class LockLine(TypedDict, total=False):
    """A line of the lock's program (operations/node/lock.py): whether it is `held`, the generation `before` and from
    now on, or who has it; then `beat`, the number of each beat that came, in seconds of the deploy's clock.
    """

    held: bool
    before: str
    generation: str
    beat: float
    owner: str
    since: str
    what: str
