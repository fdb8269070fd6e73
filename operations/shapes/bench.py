"""What a bench is told of a node (operations/node/bench_facts.py). What the node can't say is None, and never 0."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from operations.shapes.plans import Served
from operations.shapes.unit import Endpoint, UnitState


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
