"""A cluster that lacks a node goes on as one engine, where the owner wants it: what lies on each node for that."""

from __future__ import annotations

from operations.paths import FALLBACK
from operations.plan.cluster.addresses import engine_url
from operations.plan.cluster.nodes import Node, rails_between
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.recipes.recipe import Recipe
from operations.plan.services.contract import Contract, Start
from operations.plan.services.engine_service import alone_files
from operations.plan.services.service import Program, Service, python_program
from operations.wire.specs import FallbackSpec


def check_fallback(recipe: Recipe, knobs: Knobs) -> None:
    """Refuse a fallback that could not serve."""
    if knobs.falls_back and "solo" not in recipe.topologies:
        problem = f"fallback=solo: the recipe {recipe.name} runs in: {', '.join(recipe.topologies)}"
        raise Refusal(Finding("knob", problem, "set fallback to off, or choose a recipe that runs in solo"))


def fallback(model: ServedModel, node: Node, engine: Service) -> Program | None:
    """The program that decides, and the engine that it would start; None: a cluster waits for its nodes."""
    knobs = model.knobs
    if not knobs.falls_back:
        return None
    wanted: FallbackSpec = {
        "rank": node.place,
        "ranks": [{"name": rank.name, "address": rank.fabric} for rank in model.nodes],
        "port": knobs.port("meeting"),
        "engine_port": knobs.engine_port,
        "meeting": model.meeting,
        "spec": engine.spec,
        "rails": [rail["device"] for rail in rails_between(node, model.nodes)],
        "after_s": knobs.fallback_after,
        "returns": knobs.fallback_returns,
    }
    return python_program(FALLBACK, wanted, ("others", "under_way"), alone_files(model, node))


def standby_urls(model: ServedModel) -> list[str]:
    """Base URLs at which an engine answers only where a node serves alone; the leader's would be the cluster's."""
    return [engine_url(model.knobs, node) for node in model.nodes[1:]] if model.knobs.falls_back else []


SERVICE = Contract(
    (FALLBACK,), lambda its: [fallback(its.here[0], its.node, its.engine(its.here[0]))], Start.AFTER_ENGINE
)
