"""How many requests an engine has room for, and what its recipe lets in at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from bench.advise import models
from bench.advise.load import Load
from operations.plan.config.knobs import Topology
from operations.plan.config.spark import IDLE_GIB
from operations.plan.engines import ENGINES
from operations.plan.recipes.recipe import Recipe
from operations.plan.services.demand import demand


@dataclass(frozen=True)
class Room:
    """For all engines together; None: it is not known, or nothing sets a bound. `words` say what makes the bound."""

    at_once: int | None
    words: str
    #: By the KV cache's bytes alone.
    fit: int | None
    #: By the engine's flag for it alone.
    let_in: int | None


def room(recipe: Recipe, model: models.Model | None, topology: str, nodes: int, load: Load) -> Room:
    """How many requests fit a topology under a load."""
    engines, ranks = (nodes, 1) if topology == "replicas" else (1, nodes if topology == "cluster" else 1)
    return room_of(recipe, model, engines, ranks, load)


def room_of(recipe: Recipe, model: models.Model | None, engines: int, ranks: int, load: Load) -> Room:
    """Room of so many engines, each over so many nodes, under a load."""
    said = ENGINES[recipe.engine].memory(recipe)
    let_in = None if said.requests is None else said.requests * engines
    fit = None
    budget = cache_bytes(recipe, ranks)
    if model and budget is not None:
        held = model.held(load.prompt + load.answer, models.kv_bytes(recipe)) / ranks
        fit = max(int(budget / held), 0) * engines
    bounds = [
        (most, words)
        for most, words in ((fit, "KV cache"), (let_in, ENGINES[recipe.engine].REQUESTS))
        if most is not None
    ]
    at_once, words = min(bounds, default=(None, "not known"), key=lambda each: each[0])
    return Room(at_once, words, fit, let_in)


def cache_bytes(recipe: Recipe, ranks: int) -> float | None:
    """Bytes of KV cache on a node; None: the weights are not known. What is held beside the weights is taken."""
    if not recipe.needs.gpu:
        return None
    said = ENGINES[recipe.engine].memory(recipe)
    if said.cache_bytes:
        return said.cache_bytes
    if recipe.weights_gib is None:
        return None
    share = ENGINES[recipe.engine].demand(recipe, ranks).share or said.share or models.UTILIZATION
    return (share * models.VISIBLE_GIB - recipe.weights_gib / ranks - models.HELD_GIB) * models.GIB


def too_much(recipe: Recipe, topology: str, nodes: int) -> str:
    """Why no Spark lets such an engine start, whatever it would do then; empty: one that is idle may."""
    parts = nodes if topology == "cluster" else 1
    wanted, most = demand(recipe, cast("Topology", topology), parts).of(models.VISIBLE_GIB), max(IDLE_GIB)
    return f"a start wants {wanted:.1f} GiB free, an idle Spark has {most:g} at most" if wanted > most else ""


def context(recipe: Recipe, model: models.Model | None) -> int | None:
    """Tokens that a request may have, question and answer together; None: not known."""
    return ENGINES[recipe.engine].memory(recipe).context or (model.context if model else None)
