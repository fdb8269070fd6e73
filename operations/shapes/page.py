"""What the page tells a browser (files/page), and what the exporters tell the page of what has happened."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Event(TypedDict):
    """Something that has happened: seconds since 1970, a kind, a line (files/exporter/happened.py)."""

    when: float
    kind: str
    text: str


class NodeEvent(Event):
    """The same, of a node; a deploy is of none."""

    node: str


class Events(TypedDict):
    """events.json of the page: the newest first, and nodes of which none could be had."""

    events: list[NodeEvent]
    missing: list[str]


class Disk(TypedDict):
    """Bytes."""

    path: str
    bytes: float
    free_bytes: float


class Rail(TypedDict, total=False):
    """What is not known is left out. `speed_bits` a second; `in_gbits` and `out_gbits` of now."""

    device: str
    carrier: float
    speed_bits: float
    mtu_bytes: float
    in_gbits: float
    out_gbits: float


class EnginePart(TypedDict):
    """A model's engine on a node; `kv_fill` in percent."""

    model: str
    state: str
    kv_fill: NotRequired[float]


class Machine(TypedDict, total=False):
    """A node's own figures, by their units; what nobody knows is left out."""

    clock_hertz: float
    power_watts: float
    temperature_celsius: float
    busy_ratio: float
    memory_bytes: float
    memory_available_bytes: float
    memory_floor_bytes: float
    swap_used_bytes: float
    served_at: float
    disks: list[Disk]
    rails: list[Rail]


class NodePart(Machine):
    """A node: a word, a sentence, and its engines."""

    name: str
    state: str
    sentence: str
    engines: list[EnginePart]


class ModelPart(TypedDict):
    """A model: a word, a sentence, and figures of now, each in the unit of its panel."""

    name: str
    state: str
    sentence: str
    requests_running: NotRequired[float]
    requests_waiting: NotRequired[float]
    tokens_out: NotRequired[float]
    tokens_in: NotRequired[float]
    prefix_hits: NotRequired[float]
    ttft_p50: NotRequired[float]
    ttft_p99: NotRequired[float]
    between_p50: NotRequired[float]
    between_p99: NotRequired[float]


class PlannedNode(TypedDict):
    """A node as it is declared."""

    name: str
    rails: list[str]


class PlannedModel(TypedDict):
    """A model as it is declared."""

    topology: str
    executor: str
    recipe: str
    model: str
    spec: str
    nodes: list[str]
    answers: list[str]


class Planned(TypedDict):
    """What is declared."""

    nodes: list[PlannedNode]
    models: list[PlannedModel]


class PanelName(TypedDict):
    """A panel that can be asked for."""

    id: str
    title: str
    unit: str
    kind: str


class State(TypedDict):
    """state.json: `when` in seconds since 1970, `clock` in words; `asked_at`: the node that answers."""

    when: float
    clock: str
    asked_at: str
    plan: Planned
    deploy_under_way: bool
    models: list[ModelPart]
    nodes: list[NodePart]
    panels: list[PanelName]


class Course(TypedDict):
    """A series by its name; None where a value was not to be had."""

    name: str
    values: list[float | None]


#: series.json: `times` in seconds since 1970, `from` where they are had, and a `note` where something is missing.
Series = TypedDict(
    "Series",
    {
        "panel": str,
        "title": str,
        "unit": str,
        "span": str,
        "from": str,
        "note": str,
        "times": list[float],
        "series": list[Course],
    },
)
