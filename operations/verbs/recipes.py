"""`make recipes [DIR=...]`: the recipes of a folder, and what the lint says of each, without a node."""

from __future__ import annotations

import functools
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from operations.plan.formats import FOLDER, load_file
from operations.plan.knobs import Knobs, read_knobs
from operations.plan.lint import lint
from operations.plan.recipe import Recipe
from operations.plan.refusal import Refusal, Remark

GROUP_DATA = Path(__file__).parents[2] / "group_data/all.py"
COLUMNS = ("name", "format", "engine", "topologies", "verdict")


def main(folder: str = "") -> int:
    """Prints the table, and under it what stands in the way or should be known; 2 for a folder that is none."""
    place = Path(folder or FOLDER)
    if not place.is_dir():
        print(f"{place} is no folder; DIR= names one with recipes in it", file=sys.stderr)
        return 2
    table = Table(*COLUMNS, box=None, pad_edge=False)
    told: list[tuple[str, list[str]]] = []
    for file in sorted(path for kind in ("*.yaml", "*.yml") for path in place.rglob(kind)):
        name = str(file.relative_to(place).with_suffix(""))
        try:
            recipe = load_file(file)
            row, lines = judged(recipe)
        except Refusal as refusal:
            row = ("-", "-", "-", "refused")
            lines = [f"{finding.problem}; {finding.remedy}" for finding in refusal.findings]
        except Exception as error:
            row, lines = ("-", "-", "-", "unreadable"), [f"{type(error).__name__}: {error}"]
        table.add_row(name, *row)
        told.append((name, lines))
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    console.print(table)
    for name, lines in told:
        for line in lines:
            console.print(f"{escape(name)}: {escape(line)}", soft_wrap=True)
    return 0


def judged(recipe: Recipe) -> tuple[tuple[str, str, str, str], list[str]]:
    """The row of a recipe behind its name, and what is to be said of it."""
    cases = list(_cases(recipe))
    remarks = list(dict.fromkeys(remark for _, said in cases for remark in said))
    engine = f"{recipe.engine} {recipe.engine_version or '(version unknown)'}"
    topologies = ", ".join(name for name, _ in cases)
    for model in recipe.models:
        if model.revision is None:
            knob = "model_revision" if model is recipe.model else "model_revisions"
            remarks.append(Remark(False, f"it names no revision of {model.repo}", f"set the knob {knob}"))
    errors, others = [r for r in remarks if r.error], [r for r in remarks if not r.error]
    verdict = "refused" if errors else f"ok, {len(others)} remark(s)" if others else "ok"
    lines = [f"error: {remark}" for remark in errors] + [f"remark: {remark}" for remark in others]
    return (recipe.format, engine, topologies, verdict), lines


def _cases(recipe: Recipe) -> Iterator[tuple[str, list[Remark]]]:
    """Each topology, in a cluster with the executor that the image can do."""
    for topology in recipe.topologies:
        if topology != "cluster":
            yield topology, lint(recipe, _knobs(topology=topology))
            continue
        nodes = max(2, recipe.min_nodes)
        by_ray = lint(recipe, _knobs(topology=topology, executor="ray"), nodes=nodes)
        without = lint(recipe, _knobs(topology=topology, executor="mp"), nodes=nodes)
        needs_mp = sum(remark.error for remark in by_ray) > sum(remark.error for remark in without)
        name = f"cluster of {nodes}" if nodes > 2 else "cluster"
        yield (f"{name} (executor=mp)", without) if needs_mp else (name, by_ray)


def _knobs(**changes: str) -> Knobs:
    return read_knobs(_shipped() | changes)


@functools.cache
def _shipped() -> dict[str, Any]:
    return {key: value for key, value in runpy.run_path(str(GROUP_DATA)).items() if not key.startswith("_")}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
