"""What the programs of files/ read beside them: written by the plan (operations/plan), read on the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from operations.wire.monitoring import Panel
from operations.wire.unit import Question

if TYPE_CHECKING:
    # Python 3.10 has it not, and nothing here is looked at while a program runs.
    from typing import NotRequired


class Signs(TypedDict):
    """Where an engine says what it has done, and what a line of that looks like."""

    path: str
    pattern: str


class Meeting(TypedDict):
    """The file that is there when all ranks have met, and the names of their nodes."""

    mark: str
    ranks: list[str]


class EngineQuestion(TypedDict, total=False):
    """What an engine is asked that is not asked for a token."""

    question: Question


class CanaryEngine(EngineQuestion):
    """An engine that the canary looks at; seconds. `acts`: whether it is killed here; `peers`: node -> address."""

    url: str
    model: str
    answers: str
    acts: bool
    deadline_s: float
    silence_s: float
    mute_s: float
    start_s: float
    signs: Signs
    meeting: Meeting | None
    peers: dict[str, str]


class Rail(TypedDict):
    """An address with its prefix, and bytes."""

    address: str
    mtu: int


class CanaryAlone(TypedDict):
    """The engines while this node serves alone."""

    engines: dict[str, CanaryEngine]


class OfficeSpec(TypedDict):
    """What files/office/office.py follows; see there. `fabric`: an address, and a port."""

    name: str
    device: str
    routerless: bool
    port: int
    moving: str
    fabric: tuple[str, int]
    others: dict[str, str]
    rails: list[str]
    names: list[str]
    head: str
    signs: dict[str, list[str]]


class CanarySpec(TypedDict):
    """canary.json. `engines` by unit, `litellm`: unit -> URL, `rails` by device."""

    engines: dict[str, CanaryEngine]
    proxy: str
    litellm: dict[str, str]
    rails: dict[str, Rail]
    alone: NotRequired[CanaryAlone]


class GuardBefore(TypedDict):
    """One that is killed before any engine: where its container's id lies, beyond how many MiB, and what it has when
    idle.
    """

    container: str
    usual_mib: int
    idle_mib: int


class GuardSpec(TypedDict):
    """guard.json: MiB that have to be available; unit -> where its container's id lies, whom to kill first; and by unit
    those who go before them.
    """

    floor_mib: int
    containers: dict[str, str]
    before: dict[str, GuardBefore]


class OnDemand(TypedDict, total=False):
    """`on_demand`: `yes` of a model that is loaded when somebody asks: that its engine does not run is no fault."""

    on_demand: str


class PlanRow(OnDemand):
    """What is declared for a node, of one model."""

    recipe: str
    topology: str
    model: str
    spec: str
    unit: str


class ExporterFacts(TypedDict):
    """What the exporter says itself. `starts`: of a unit until it stays down; `certificate`: a path, or empty."""

    units: list[str]
    store: str
    rails: list[str]
    floor_mib: int
    starts: int
    plans: list[PlanRow]
    certificate: str


class Passed(TypedDict):
    """Metrics that it passes on: those whose names match; `model`: what clients call it."""

    url: str
    names: str
    model: NotRequired[str]


class ExporterSpec(TypedDict):
    """exporter.json; `passed` by the name of the source."""

    address: str
    port: int
    facts: ExporterFacts
    passed: dict[str, Passed]


class PageModel(OnDemand):
    """A model on the page. `nodes`: those that it lies on, rank 0 first; `answers`: those whose engine answers."""

    topology: str
    executor: str
    recipe: str
    model: str
    spec: str
    load_minutes: float
    unit: str
    nodes: list[str]
    answers: list[str]


class PageNode(TypedDict):
    """A node that serves, and where its exporter is."""

    name: str
    url: str
    rails: list[str]


class PageSpec(TypedDict):
    """page.json. `asked_by`: users whom it answers; `prometheus`: its URL, or empty; `advice`: the file that a bench or
    a deploy hands over; `static`: what a browser gets.
    """

    socket: str
    asked_by: list[int]
    name: str
    models: list[PageModel]
    nodes: list[PageNode]
    prometheus: str
    advice: str
    panels: list[Panel]
    static: list[str]


class OnDemandModel(TypedDict):
    """A model that is loaded when somebody asks for it. `url`: what answers once it is loaded; `address` and `port`:
    where its engine listens; `need_mib`: what it takes of the node; `idle_s`: without a request, after which it is
    unloaded; `load_s`: what a load takes where none is kept, `most_s`: after which one has failed.
    """

    model: str
    url: str
    address: str
    port: int
    spec: str
    need_mib: int
    idle_s: float
    load_s: float
    most_s: float


class OnDemandSpec(TypedDict):
    """ondemand.json. Where it is asked, and the file with the key that whoever asks has; MiB of the node that stay free
    and that models which stay loaded take; the others by their engines' units, the owner's first one first.
    """

    address: str
    port: int
    key: str
    floor_mib: int
    stay_mib: int
    stay: list[str]
    models: dict[str, OnDemandModel]


class FallbackRank(TypedDict):
    """A node of the cluster, and its address on the fabric."""

    name: str
    address: str


class FallbackSpec(TypedDict):
    """fallback.json. `rank`: this node's; seconds without a node after which it serves alone."""

    rank: int
    ranks: list[FallbackRank]
    port: int
    engine_port: int
    meeting: str
    spec: str
    rails: list[str]
    after_s: float
    returns: str
