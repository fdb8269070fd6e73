"""What is declared and what is, as one answer: state.json. What nobody knows is left out, and is never 0."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from asking import Heard
from nodes import ALONE, DEAD, RESTS, STARTING, Engine, Watch, node_state
from reading import Reading
from words import clock, counted, joined

if TYPE_CHECKING:
    from operations.wire.page import EnginePart, Machine, ModelPart, NodePart, PlannedModel, Rail, State
    from operations.wire.specs import PageModel, PageNode, PageSpec

#: Name in a node's part -> the metric.
_NODE = {
    "clock_hertz": "tandem_gpu_clock_hertz",
    "power_watts": "tandem_gpu_power_watts",
    "temperature_celsius": "tandem_gpu_temperature_celsius",
    "busy_ratio": "tandem_gpu_busy_ratio",
    "memory_bytes": "tandem_memory_bytes",
    "memory_available_bytes": "tandem_memory_available_bytes",
    "memory_floor_bytes": "tandem_memory_floor_bytes",
    "swap_used_bytes": "tandem_swap_used_bytes",
    "served_at": "tandem_plan_served_timestamp_seconds",
}
#: Panels whose figure is in a model's part.
_MODEL = (
    *("requests_running", "requests_waiting", "tokens_out", "tokens_in", "prefix_hits"),
    *("ttft_p50", "ttft_p99", "between_p50", "between_p99"),
)

Figures = Mapping[str, Mapping[str, float]]
#: node -> the engine there, of one model.
Engines = Mapping[str, Engine]


def state(wanted: PageSpec, heard: Sequence[Heard], watch: Watch, figures: Figures) -> State:
    """All of it. `figures`: panel -> series -> value."""
    engines = [_engines(model, heard, watch) for model in wanted["models"]]
    rows = {each["name"]: each for each in wanted["nodes"]}
    nodes: list[NodePart] = []
    for each in heard:
        mine = [of[each.name] for of in engines if each.name in of]
        word, sentence = node_state(each, mine, (), len(engines) > 1)
        told = each.reading if each.silent_since is None else None
        more: Machine = _machine(told, rows[each.name], figures) if told else {}
        parts = [_engine(engine, each.name, figures if told else {}) for engine in mine]
        nodes.append({"name": each.name, "state": word, "sentence": sentence, "engines": parts, **more})
    deploy = [each.reading.one("tandem_deploy_under_way") for each in heard if each.reading and not each.silent_since]
    now = time.time()
    return {
        "when": round(now, 1),
        "zone": time.strftime("%Z", time.localtime(now)),
        "zone_offset_s": time.localtime(now).tm_gmtoff,
        "asked_at": wanted["name"],
        "plan": {
            "nodes": [{"name": row["name"], "rails": row["rails"]} for row in rows.values()],
            "models": [_planned(model) for model in wanted["models"]],
        },
        "deploy_under_way": any(deploy),
        "models": [
            _model(model, heard, of, [each for each in engines if each is not of], figures)
            for model, of in zip(wanted["models"], engines, strict=True)
        ],
        "nodes": nodes,
        "panels": [
            {"id": panel["id"], "title": panel["title"], "unit": panel["unit"], "kind": panel["kind"]}
            for panel in wanted["panels"]
        ],
    }


def _planned(model: PageModel) -> PlannedModel:
    return {
        "topology": model["topology"],
        "executor": model["executor"],
        "recipe": model["recipe"],
        "model": model["model"],
        "spec": model["spec"],
        "nodes": model["nodes"],
        "answers": model["answers"],
    }


def _engines(model: PageModel, heard: Sequence[Heard], watch: Watch) -> Engines:
    """A model's engines by their nodes. One that lacks a node says so, as its model does, though it answers /health."""
    found = {each.name: watch.engine(model, each) for each in heard if each.name in model["nodes"]}
    missed = _missed(heard, found)
    alone = {each.name for each in heard if each.reading and each.reading.one("tandem_alone")}
    for ranks in _ranks(model).values():
        mine = [name for name in ranks if name in found]
        gone = [name for name in mine if found[name].state == "unknown" and name in missed]
        served = any(found[name].state == "answers" for name in mine)
        for name in mine:
            found[name] = replace(found[name], served=served)
            if gone and name not in alone and found[name].state in ("answers", "rank"):
                found[name] = replace(found[name], state="lacks", does=f"lacks {joined(gone)}")
    return found


def _ranks(model: PageModel) -> dict[str, list[str]]:
    """The nodes of each engine by the one that answers: that one, and those up to the next one that answers."""
    found: dict[str, list[str]] = {}
    for name in model["nodes"]:
        if name in model["answers"]:
            ranks = found[name] = []
        ranks.append(name)
    return found


def _engine(engine: Engine, node: str, figures: Figures) -> EnginePart:
    found: EnginePart = {"model": engine.model, "state": engine.state}
    if (fill := figures.get("kv_fill", {}).get(f"{node} {engine.model}")) is not None:
        found["kv_fill"] = fill
    return found


def _model(
    model: PageModel, heard: Sequence[Heard], engines: Engines, others: Sequence[Engines], figures: Figures
) -> ModelPart:
    nodes = {}
    for each in heard:
        if each.name in engines:
            beside = [of[each.name] for of in others if each.name in of]
            nodes[each.name] = node_state(each, [engines[each.name]], beside, False)
    state, sentence = _serves(_ranks(model), engines, nodes, _missed(heard, engines))
    found: ModelPart = {"name": model["model"], "state": state, "sentence": sentence}
    loads = [each.progress for each in engines.values() if each.progress is not None]
    if state == "starting" and loads:
        found["progress"] = round(min(loads), 3)
    for panel in _MODEL:
        value = figures.get(panel, {}).get(model["model"])
        if value is not None:
            cast("dict[str, object]", found)[panel] = round(value, 6)
    return found


def _missed(heard: Sequence[Heard], engines: Engines) -> set[str]:
    """Nodes with a rank of this model that its canaries miss too: only ranks of a cluster are missed."""
    readings = [each.reading for each in heard if each.name in engines and each.reading and not each.silent_since]
    return {labels.get("node", "") for said in readings for labels, _ in said.all("tandem_node_away")}


def _serves(
    ranks: Mapping[str, Sequence[str]], engines: Engines, nodes: Mapping[str, tuple[str, str]], missed: set[str]
) -> tuple[str, str]:
    """A word and one sentence: since when, by how many, and what the others do. `nodes`: as far as its engines go. A
    model is `starting` while each of its engines loads and none has anything held against it.
    """
    dead = [name for name, (word, _) in nodes.items() if word == DEAD]
    alone = [name for name, (word, _) in nodes.items() if word == ALONE and engines[name].state == "answers"]
    # Its engine says that it is there until it waits for that rank no longer.
    gone = {of: [name for name in names if name in dead and name in missed] for of, names in ranks.items()}
    lacks = {
        of: f"does not serve while {joined(names)} {'is' if len(names) == 1 else 'are'} away"
        for of, names in gone.items()
        if names and of not in dead
    }
    up = alone or [of for of in ranks if engines[of].state == "answers" and of not in lacks]
    others = [] if alone else [of for of in ranks if of not in up]
    rest = joined([f"{of}: {lacks.get(of) or nodes[of][1]}" for of in others])
    if not up:
        if all(engines[of].state == RESTS for of in others):
            return RESTS, "is loaded when somebody asks for it"
        if all(nodes[of][0] == STARTING and not {*ranks[of]} & {*dead} for of in others):
            return "starting", nodes[others[0]][1] if len(others) == 1 else rest
        only = lacks.get(others[0]) if len(others) == 1 else ""
        return "no", only or f"does not serve; {rest or 'no engine answers'}"
    begun = [began for name in up if (began := engines[name].since)]
    since = f" since {clock(min(begun))}" if begun else ""
    if alone:
        return "alone", f"serves{since} by {alone[0]} alone"
    if others:
        return "partly", f"serves{since} with {counted(len(up))} of {counted(len(ranks))} engines; {rest}"
    count = f" with {counted(len(up))} engines" if len(up) > 1 else ""
    # An exporter that is silent alone says nothing of the rank beside it.
    return "serves", f"serves{since}{count}" + (f"; no word from {joined(dead)}" if dead else "")


def _machine(said: Reading, row: PageNode, figures: Figures) -> Machine:
    name = row["name"]
    figures_of = {key: value for key, metric in _NODE.items() if (value := said.one(metric)) is not None}
    found = cast("Machine", figures_of)
    found["disks"] = [
        {"path": labels["path"], "bytes": size, "free_bytes": free}
        for labels, size in said.all("tandem_disk_bytes")
        if (free := said.one("tandem_disk_free_bytes", path=labels["path"])) is not None
    ]
    found["rails"] = [_rail(said, name, device, figures) for device in row["rails"]]
    return found


def _rail(said: Reading, node: str, device: str, figures: Figures) -> Rail:
    rail: Rail = {"device": device}
    if (carrier := said.one("tandem_rail_carrier", device=device)) is not None:
        rail["carrier"] = carrier
    if (speed := said.one("tandem_rail_speed_bits", device=device)) is not None:
        rail["speed_bits"] = speed
    if (mtu := said.one("tandem_rail_mtu_bytes", device=device)) is not None:
        rail["mtu_bytes"] = mtu
    if (goes_in := figures.get("rail_in", {}).get(f"{node} {device}")) is not None:
        rail["in_gbits"] = goes_in
    if (goes_out := figures.get("rail_out", {}).get(f"{node} {device}")) is not None:
        rail["out_gbits"] = goes_out
    return rail
