"""What `make advise` is asked: the load, the recipe, the nodes."""

from __future__ import annotations

import re
import runpy
from collections.abc import Mapping
from pathlib import Path

from bench.advise import load as loads
from bench.advise import models
from bench.advise.evidence import Estimated
from bench.advise.kv import context
from bench.advise.load import Load
from bench.advise.measured import drafts, evidence
from bench.advise.options import Question
from bench.resuming import RUNS
from operations.plan.engines import ENGINES
from operations.plan.formats import load_recipe
from operations.plan.recipe import Recipe
from operations.plan.refusal import Finding, Refusal

MEASURE = 'ask for fewer users, or measure it: make bench TOPOLOGIES="solo cluster replicas"'
GROUP_DATA = Path(__file__).parents[2] / "group_data/all.py"


def asked(environment: Mapping[str, str], runs: Path = RUNS) -> tuple[Question, Load]:
    """From LOAD, RECIPE (or the declared one) and NODES. Raises Refusal."""
    load = loads.read(environment.get("LOAD", ""))
    recipe = load_recipe(environment.get("RECIPE") or declared())
    return question(recipe, _nodes(environment.get("NODES", ""), recipe), load, runs), load


def question(recipe: Recipe, nodes: int, load: Load, runs: Path = RUNS) -> Question:
    """Raises Refusal where the load is longer than the context, or nothing at all is known."""
    model = models.of(recipe)
    longest = context(recipe, model)
    if longest and load.prompt + load.answer > longest:
        problem = f"{load.prompt:,} tokens in and {load.answer:,} out are {load.prompt + load.answer:,}"
        flag = ENGINES[recipe.engine].CONTEXT
        remedy = f"{recipe.name} takes {longest:,} together ({flag}); shorten one, or choose another recipe"
        raise Refusal(Finding("LOAD", problem, remedy))
    estimated = Estimated(model, models.kv_bytes(recipe), drafts=drafts(recipe)) if model else None
    known = evidence(recipe, estimated, load, runs)
    if not known.sources and not known.estimated:
        problem = (
            f"nothing is known of {recipe.name}: no run in {runs.name}, no table, and not what its model is made of"
        )
        raise Refusal(Finding("RECIPE", problem, MEASURE))
    return Question(recipe, model, nodes, known)


def declared() -> str:
    """The recipe of group_data."""
    return str(runpy.run_path(str(GROUP_DATA))["recipe"])


def _nodes(text: str, recipe: Recipe) -> int:
    if not text:
        return max(2, recipe.min_nodes)
    if not re.fullmatch(r"[1-9][0-9]?", text):
        raise Refusal(Finding("NODES", f"`{text}` is no number of nodes", "1 to 99, e.g. NODES=2"))
    if "solo" not in recipe.topologies and int(text) < recipe.min_nodes:
        remedy = f"{recipe.name} needs {recipe.min_nodes}"
        raise Refusal(Finding("NODES", f"{text} are too few", remedy))
    return int(text)
