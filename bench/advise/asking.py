"""What `tandem advise` is asked: the load, the recipe or any, the nodes or several numbers of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.advise import load as loads
from bench.advise import models
from bench.advise.evidence import Estimated
from bench.advise.kv import context
from bench.advise.load import Load
from bench.advise.measured import drafts, evidence, one_run
from bench.advise.options import Question
from bench.advise.words import measuring
from bench.resuming import RUNS
from operations.plan.config.knobs import read_knobs
from operations.plan.config.refusal import Finding, Refusal, alike
from operations.plan.engines import ENGINES
from operations.plan.recipes.formats import FOLDER, load_recipe
from operations.plan.recipes.recipe import Recipe
from operations.plan.wanted import group_data

#: --recipe of who wants the best of all.
ANY = "any"


@dataclass(frozen=True)
class AdviceRequest:
    """`questions`: of each recipe and each number of nodes that was named. `declared`: which recipe group_data has."""

    questions: list[Question]
    load: Load
    declared: str
    #: Why a recipe is left out where any was asked for, a line each.
    left_out: tuple[str, ...] = ()


def asked(environment: Mapping[str, str], runs: Path = RUNS) -> AdviceRequest:
    """From LOAD, RECIPE (or the declared one), NODES and RUN. Raises Refusal."""
    load = loads.read(environment.get("LOAD", ""), environment)
    name = environment.get("RECIPE") or declared()
    counts = _nodes(environment.get("NODES", ""))
    if name == ANY:
        return _any(load, counts, runs)
    recipe = _recipe(name)
    of_run = Path(environment["RUN"]) if environment.get("RUN") else None
    path = "" if name == recipe.name else name
    several = [question(recipe, _enough(count, recipe), load, runs, of_run, path) for count in counts or [0]]
    return AdviceRequest(several, load, declared())


def question(
    recipe: Recipe, nodes: int, load: Load, runs: Path = RUNS, of_run: Path | None = None, path: str = ""
) -> Question:
    """`of_run`: one run that alone is taken of all own ones; `path`: the recipe's, as it was typed.

    Raises Refusal where the load is longer than the context, the run is of another recipe or more nodes, or nothing at
    all is known.
    """
    model = models.of(recipe)
    if why := _too_long(recipe, load):
        raise Refusal(Finding("load", _lengths(load), f"{recipe.name} {why}; shorten one, or choose another recipe"))
    estimated = Estimated(model, models.kv_bytes(recipe), drafts=drafts(recipe)) if model else None
    known = evidence(recipe, estimated, load, runs, _of(of_run, recipe, nodes) if of_run else None)
    found = Question(recipe, model, nodes, known, path)
    if not known.sources and not known.estimated:
        problem = (
            f"nothing is known of {recipe.name}: no run in {runs.name}, no table, and not what its model is made of"
        )
        raise Refusal(Finding("--recipe", problem, f"measure it: {measuring(found, declared())}"))
    return found


def _lengths(load: Load) -> str:
    return f"{load.prompt:,} tokens in and {load.answer:,} out are {load.prompt + load.answer:,}"


def _too_long(recipe: Recipe, load: Load) -> str:
    """A recipe's context, in words, if the load exceeds it; else an empty text."""
    longest = context(recipe, models.of(recipe))
    is_longer = longest and load.prompt + load.answer > longest
    return f"takes {longest:,} together ({ENGINES[recipe.engine].CONTEXT})" if is_longer else ""


def declared() -> str:
    """The recipe that group_data names, or the default."""
    return read_knobs(group_data()).recipe


def _of(folder: Path, recipe: Recipe, nodes: int) -> Path:
    run = one_run(folder)
    if run.recipe != recipe.name:
        problem = f"{folder.name} is a run of {run.recipe}, and {recipe.name} is asked about"
        raise Refusal(Finding("--run", problem, f"leave --run out, or ask with --recipe {run.recipe}"))
    most = max((each.nodes for each in run.setups), default=0)
    if most > nodes:
        raise Refusal(
            Finding("--run", f"{folder.name} is a run of {most} nodes, not {nodes}", f"ask with --nodes {most}")
        )
    return folder


def _any(load: Load, counts: list[int], runs: Path) -> AdviceRequest:
    questions, left_out = [], []
    nodes = counts[0] if counts else 2
    if len(counts) > 1:
        both = " ".join(map(str, counts))
        remedy = f"choose a recipe first (--recipe {ANY} --nodes {nodes}), then name it with --nodes '{both}'"
        raise Refusal(Finding("--nodes", f"--recipe {ANY} is of one number of nodes", remedy))
    for name in recipes():
        recipe = load_recipe(name)
        try:
            questions.append(question(recipe, _enough(nodes, recipe), load, runs))
        except Refusal as refusal:
            left_out.append(f"{name}: {_too_long(recipe, load) or refusal.findings[0].problem}")
    if not questions:
        # Some recipe runs on any number of nodes, so all are left out by their context alone.
        longest = max(context(each, models.of(each)) or 0 for each in map(load_recipe, recipes()))
        raise Refusal(Finding("load", _lengths(load), f"the longest takes {longest:,} together; shorten one"))
    return AdviceRequest(questions, load, declared(), tuple(left_out))


def recipes() -> Iterator[str]:
    """Those of owners: what is the lab's own is no answer."""
    return (name for each in sorted(FOLDER.glob("*.yaml")) if load_recipe(name := each.stem).needs.gpu)


def _recipe(name: str) -> Recipe:
    """Raises Refusal that names the nearest, those that begin or contain what was written first, and for a model of the
    Hub what says whether it fits.
    """
    is_of_the_hub = re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name) and not name.endswith((".yaml", ".yml"))
    if is_of_the_hub and not os.path.lexists(name):
        problem = f"`{name}` is no recipe, and advice is of recipes alone"
        remedy = f"the file of one ends in .yaml; whether a model of this name fits says: tandem fit {name}"
        raise Refusal(Finding("--recipe", problem, remedy))
    if "/" not in name and not (FOLDER / f"{name}.yaml").exists():
        known = list(recipes())
        others = f"one of: {', '.join(known)}; whether another model fits says: tandem fit ORG/NAME"
        raise Refusal(Finding("--recipe", f"no recipe is named `{name}`", alike(name, known, others)))
    return load_recipe(name)


def _nodes(text: str) -> list[int]:
    words = text.replace(",", " ").split()
    for word in words:
        if not re.fullmatch(r"[1-9][0-9]?", word):
            raise Refusal(
                Finding("--nodes", f"`{word}` is no number of nodes", "1 to 99, e.g. --nodes 2, or --nodes 2,4")
            )
    return sorted({int(word) for word in words})


def _enough(nodes: int, recipe: Recipe) -> int:
    """`nodes` 0: as many as the recipe wants, two at least."""
    if not nodes:
        return max(2, recipe.min_nodes)
    needed = max(2, recipe.min_nodes)
    if "solo" not in recipe.topologies and nodes < needed:
        are = "is" if nodes == 1 else "are"
        remedy = f"ask for {recipe.name} with --nodes {needed}"
        raise Refusal(Finding("--nodes", f"{nodes} {are} too few, it needs {needed}", remedy))
    return nodes
