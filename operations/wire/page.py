"""What the page tells a browser (files/page), and what the exporters tell the page of what has happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    # Python 3.10 has it not, and nothing here is looked at while a program runs.
    from typing import NotRequired


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


class Taken(TypedDict):
    """Whether there is a `page` on a node that could take what it is handed
    (operations/node/monitoring/handed.py), and the `problem` where it did not.
    """

    page: bool
    problem: NotRequired[str]


class BenchRow(TypedDict):
    """So many users of a setup: tokens of answers a second (`decode`), and seconds until the first one."""

    setup: str
    users: float
    decode: NotRequired[float]
    first: NotRequired[float]


class BenchPart(TypedDict):
    """A model's last bench; `began` in seconds since 1970, `prompt` and `answer` in tokens."""

    folder: str
    began: float
    profile: str
    recipe: str
    prompt: int
    answer: int
    rows: list[BenchRow]


class Better(TypedDict, total=False):
    """A setup that is `better` than what serves, or empty: there is none, and no figures. `by` is a share, `here` and
    `there` tokens a second, `first_...` seconds; `kind` and `source`: where that is from.
    """

    better: str
    kind: str
    source: str
    by: float
    here: float
    there: float
    first_here: float
    first_there: float


class AdviceTable(TypedDict):
    """For prompts and answers of so many tokens: what is better for one user, two, ...; None: it is not known.
    `lengths_from`: the `bench`'s own, `plain` ones without a bench, or of the `grid`; an older Tandem does not say it.
    """

    prompt: float
    answer: float
    lengths_from: NotRequired[str]
    users: list[Better | None]


class Handed(TypedDict):
    """What a page is told of a model (bench/advise/page.py); `spec`: of the engine that it is about."""

    spec: str
    bench: BenchPart | None
    advice: list[AdviceTable]


class HandedModel(Handed):
    """The same with the model, as clients call it."""

    model: str


class AdviceFile(TypedDict):
    """advice.json: `when` in seconds since 1970."""

    format: int
    when: float
    models: list[HandedModel]


class Advice(Better):
    """What is said of the load that is there: a sentence, and what it is computed for."""

    sentence: str
    users: NotRequired[int]
    lengths: NotRequired[str]


class AdvisedPart(TypedDict):
    """What a page says of benches: of the last one, if one is known, and the advice."""

    bench: NotRequired[BenchPart]
    advice: Advice


class ModelPart(TypedDict):
    """A model: a word, a sentence, and figures of now, each in the unit of its panel. `progress`: while it starts, the
    share of its load that is over, 0 to 1; left out while it waits for a node.
    """

    name: str
    state: str
    sentence: str
    progress: NotRequired[float]
    requests_running: NotRequired[float]
    requests_waiting: NotRequired[float]
    tokens_out: NotRequired[float]
    tokens_in: NotRequired[float]
    prefix_hits: NotRequired[float]
    ttft_p50: NotRequired[float]
    ttft_p99: NotRequired[float]
    between_p50: NotRequired[float]
    between_p99: NotRequired[float]
    bench: NotRequired[BenchPart]
    advice: NotRequired[Advice]


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
    """state.json: `when` in seconds since 1970; `asked_at`: the node that answers; `zone`: its time zone's name, and
    `zone_offset_s` by how many seconds that is ahead of UTC; `advice_note`: what is wrong with what was handed over, or
    nothing.
    """

    when: float
    zone: str
    zone_offset_s: int
    asked_at: str
    plan: Planned
    deploy_under_way: bool
    models: list[ModelPart]
    nodes: list[NodePart]
    panels: list[PanelName]
    advice_note: NotRequired[str]


class ChartLine(TypedDict):
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
        "series": list[ChartLine],
    },
)
