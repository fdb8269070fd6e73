"""`tandem audit-security --recipe NAME|FOLDER`: recipes against known holes, without a node."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

from rich.table import Table

from operations.plan import advisories
from operations.plan.config.knobs import Knobs, read_knobs
from operations.plan.config.refusal import Refusal
from operations.plan.recipes.formats import load_file, load_recipe
from operations.plan.recipes.recipe import Recipe
from operations.plan.wanted import group_data
from operations.verbs.hole_table import console, failure, rest, show

COLUMNS = ("recipe", "engine", "known", "reachable", "critical", "worst that can be reached", "mended by")


def main(what: str) -> int:
    """A folder: a row for each recipe in it, over all its topologies; else one recipe, every hole. 1: a critical hole
    can be reached, 2: there is no such recipe or folder.
    """
    place = Path(what)
    try:
        recipes = _in_folder(place) if place.is_dir() else [load_recipe(what)]
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 2
    if place.is_dir():
        table = Table(*COLUMNS, box=None, pad_edge=False)
        verdicts = [(recipe, over_all(recipe)) for recipe in recipes]
        for recipe, verdict in verdicts:
            table.add_row(recipe.name, *row(recipe, verdict))
        console().print(table)
        unknown = tuple(dict.fromkeys(part for _, verdict in verdicts for part in verdict.unknown))
        print("\n" + "\n".join(rest(advisories.Verdict((), unknown, ()))))
        critical = [hole for _, verdict in verdicts for hole in verdict.critical]
    else:
        verdict = over_all(recipes[0])
        show(verdict)
        critical = list(verdict.critical)
    if critical:
        print(failure(critical), file=sys.stderr)
    return 1 if critical else 0


def over_all(recipe: Recipe) -> advisories.Verdict:
    """The engine's holes in any topology and with either executor: what can be reached in one of them counts."""
    verdicts = [
        advisories.judge(recipe, _knobs(topology=topology, executor=executor))
        for topology in recipe.topologies
        for executor in (("ray", "mp") if topology == "cluster" else ("mp",))
    ]
    every = [hole for verdict in verdicts for hole in verdict.holes if hole.part.where == "engine"]
    best = {(hole.part.package, hole.advisory.id): hole for hole in sorted(every, key=lambda hole: hole.reachable)}
    unknown = dict.fromkeys(part for verdict in verdicts for part in verdict.unknown if part.where == "engine")
    worst_first = sorted(best.values(), key=lambda hole: (not hole.reachable, -hole.score, hole.advisory.id))
    return advisories.Verdict(tuple(worst_first), tuple(unknown), ())


def row(recipe: Recipe, verdict: advisories.Verdict) -> tuple[str, ...]:
    """A recipe's row behind its name."""
    reachable = [hole for hole in verdict.holes if hole.reachable]
    engine = f"{recipe.engine} {recipe.engine_version or '(version unknown)'}"
    worst = next((f"{hole.advisory.id} ({hole.rating}), {hole.why}" for hole in reachable), "-")
    mended = next((hole.fixed for hole in reachable), "-")
    known = str(len(verdict.holes)) if recipe.engine_version else "?"
    return engine, known, str(len(reachable)), str(len(verdict.critical)), worst, mended


def _in_folder(folder: Path) -> list[Recipe]:
    """The recipes that can be read; `tandem recipes` says what is wrong with the others."""
    found = []
    for file in sorted(path for kind in ("*.yaml", "*.yml") for path in folder.rglob(kind)):
        try:
            found.append(load_file(file))
        except Refusal:
            print(f"{file}: refused; `tandem recipes --dir {folder}` says why", file=sys.stderr)
    return found


def _knobs(**changes: str) -> Knobs:
    return read_knobs(_declared() | changes)


@functools.cache
def _declared() -> dict[str, Any]:
    return group_data()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
