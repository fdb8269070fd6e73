"""What a bench is told of a node (operations/node/look/bench_facts.py). What it can't say is None, and never 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from operations.wire.page import Taken
from operations.wire.plans import Served
from operations.wire.unit import Endpoint, UnitState

if TYPE_CHECKING:
    # Python 3.10 has it not, and nothing here is looked at while a program runs.
    from typing import NotRequired


class NodeState(TypedDict):
    """How a node is: MHz, °C, W, joules since the driver was loaded, GiB (bench/records.py reads it)."""

    clock_mhz: float | None
    temperature_c: float | None
    power_w: float | None
    energy_j: float | None
    available_gib: float | None


class Deployment(TypedDict):
    """What lies on a node: units of one engine and the proxy, the plan that served last (empty: none has), versions."""

    units: dict[str, UnitState]
    endpoint: Endpoint
    served: Served | dict[str, str]
    versions: dict[str, str]


class BenchFacts(TypedDict):
    """`counters` of the engine by our names, None where it says none; the others where a deployment was asked for."""

    state: NodeState
    counters: dict[str, int] | None
    units: NotRequired[dict[str, UnitState]]
    endpoint: NotRequired[Endpoint]
    served: NotRequired[Served | dict[str, str]]
    versions: NotRequired[dict[str, str]]


class Order(TypedDict):
    """A line that `tandem bench` hands to its verb (bench/session.py): everything of a `deployment`, or how these nodes
    are, with the URLs of their engines; or what pages say of benches (bench/advise/page.py), as text.
    """

    deployment: NotRequired[bool]
    page: NotRequired[str]
    nodes: NotRequired[list[str]]
    urls: NotRequired[dict[str, str]]


class Declared(TypedDict):
    """What the knobs want, as a bench is told."""

    recipe: str
    served_name: str
    model: str
    revision: str
    engine: str
    topologies: list[str]
    topology: str
    executor: str
    pipeline_parallel: int
    routing: str
    model_store: str


class Told(TypedDict, total=False):
    """What the verb answers (operations/verbs/bench.py): of each node, or a `problem`; in the first line, `declared`
    and how to log in to the `head`, None where that is not over ssh.
    """

    nodes: dict[str, BenchFacts] | dict[str, Taken]
    problem: str
    declared: Declared
    ssh: dict[str, object] | None
    head: str
