"""Published tables and the owner's own runs, as rows over users."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean

from bench import published
from bench.advise.evidence import Estimated, Evidence, Measured
from bench.advise.load import Load
from bench.advise.setups import Figure, Kind, Setup
from bench.figures import figures
from bench.folder import read
from bench.records import Folder, Request, Run, Step
from bench.records import Setup as Measuring
from bench.resuming import RUNS
from operations.plan.config.refusal import Refusal
from operations.plan.engines import ENGINES
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.recipe import Recipe

SOLO = Setup("solo")
Rows = dict[tuple[Setup, Figure], dict[int, tuple[float, ...]]]


def evidence(
    recipe: Recipe, estimated: Estimated | None, load: Load, runs: Path = RUNS, of_run: Path | None = None
) -> Evidence:
    """Everything that is known of a recipe, the best first: own runs, its tables, its model's tables, its own file.

    `of_run`: the one that alone is taken of own runs.
    """
    mine = own(recipe, load, of_run.parent, of_run.name) if of_run else own(recipe, load, runs)
    return Evidence([*mine, *tables(recipe)], estimated)


def one_run(folder: Path) -> Run:
    """What a folder is a run of. Raises Refusal for what is none."""
    return read(folder)[0]


def tables(recipe: Recipe) -> list[Measured]:
    """Published ones: of the recipe, of the same model served by another one, then what its own file cites."""
    mine = [cell for cell in published.cells(recipe=recipe.name) if cell.setup.recipe]
    same = [
        cell
        for cell in published.cells(model=recipe.model.repo)
        if cell.setup.recipe not in ("", recipe.name) and _drafts(cell.setup.recipe) == drafts(recipe)
    ]
    cited = [] if mine else [_cited(recipe)]
    return [*_by_article(mine, recipe), *_by_article(same, recipe), *(each for each in cited if each.rows)]


def wholes(recipe: Recipe) -> list[Measured]:
    """Whole answers that others had with a recipe on one Spark. Nothing is beside them, so no curve is made of them."""
    return [
        Measured(
            "published", f"[{article.letter}]", each.prompt, each.answer, {(SOLO, "whole"): {1: (each.seconds,)}}, {}
        )
        for article in published.articles()
        for each in article.whole
        if each.recipe == recipe.name
    ]


def drafts(recipe: Recipe) -> bool:
    """Whether tokens are drafted: then no table without it says what decode will be."""
    return ENGINES[recipe.engine].drafts(recipe)


@functools.cache
def _drafts(name: str) -> bool:
    return drafts(load_recipe(name))


def _cited(recipe: Recipe) -> Measured:
    """The figures in a recipe's file, of decode alone."""
    rows: Rows = defaultdict(dict)
    for each in recipe.figures:
        how = {"solo": "", "cluster": recipe_executor(recipe), "replicas": "simple-shuffle"}[each.topology]
        # A recipe that says no least number of nodes has 1 there, and no cluster is of one.
        on = max(recipe.min_nodes, 2) if each.topology == "cluster" else 0
        rows[Setup(each.topology, how, on), "decode"][each.users] = (each.tokens_per_second,)
    letters = ", ".join(dict.fromkeys(f"[{each.source}]" for each in recipe.figures))
    return Measured("published", letters, None, None, rows, {})


def recipe_executor(recipe: Recipe) -> str:
    """What a cluster is joined with unless somebody says otherwise: the engine's own launcher, where it has one."""
    return "mp" if "mp" in ENGINES[recipe.engine].EXECUTORS else ""


def _by_article(cells: Iterable[published.Cell], recipe: Recipe) -> list[Measured]:
    """A source for each load and recipe, the largest first: articles print parts of the same tables."""
    grouped: dict[tuple[int | None, int | None, str], list[published.Cell]] = defaultdict(list)
    for cell in cells:
        load = cell.load
        if cell.is_alike:
            continue
        grouped[load.prompt, load.answer, cell.setup.recipe].append(cell)
    found = []
    for (prompt, answer, name), group in grouped.items():
        rows: Rows = defaultdict(dict)
        said = {}
        for cell in group:
            setup = setup_of_cell(cell)
            if cell.value is None:
                said[setup, cell.users] = cell.said
                continue
            value = cell.value / 1000 if cell.figure == "ttft" else cell.value
            rows[setup, cell.figure][cell.users] = (value,)
        letters = dict.fromkeys(cell.source for cell in group)
        of = "" if name == recipe.name else f"{name} on {group[0].setup.release.split(',')[0]}"
        found.append(Measured("published", "".join(letters), prompt, answer, rows, said, of))
    return sorted(found, key=lambda each: -sum(map(len, each.rows.values())))


def setup_of_cell(cell: published.Cell) -> Setup:
    """What a published figure was measured of."""
    if cell.column == "solo":
        return Setup("solo")
    nodes = cell.setup.nodes
    if cell.column == "cluster":
        return Setup("cluster", cell.setup.executor, nodes)
    return Setup("replicas", cell.column, nodes)


def own(recipe: Recipe, load: Load, runs: Path, name: str = "*") -> list[Measured]:
    """The owner's runs of a recipe, those whose prompts are nearest to the load's first, then the newest.

    A folder that can't be read is left out here: `tandem report` says what is wrong with it.
    """
    found = [(_apart(one, load), -run.began, one) for run, measured in runs_of(recipe, runs, name) for one in measured]
    return [one for _, _, one in sorted(found, key=lambda each: each[:2])]


def runs_of(recipe: Recipe, runs: Path, name: str = "*") -> Iterator[tuple[Run, tuple[Measured, ...]]]:
    """The owner's runs of a recipe, or the one of a name, with what was measured in each."""
    for folder in sorted(each.parent for each in runs.glob(f"{name}/run.json")) if runs.is_dir() else []:
        try:
            if f'"{recipe.name}"' not in Folder(folder).run.read_text():
                continue
            found = [file.stat() for file in folder.glob("*.json*")]
            run, measured = _whole(folder, tuple((each.st_mtime_ns, each.st_size) for each in found))
        except (Refusal, OSError, ValueError):
            continue
        if run.recipe == recipe.name:
            yield run, measured


@functools.lru_cache(maxsize=256)
def _whole(folder: Path, _stamp: tuple[tuple[int, int], ...]) -> tuple[Run, tuple[Measured, ...]]:
    """A folder as it was at that time: an advice for many loads reads it once."""
    run, steps, requests = read(folder)
    return run, tuple(by_prompt(folder.name, run, steps, requests))


def by_prompt(name: str, run: Run, steps: list[Step], requests: dict[str, list[Request]]) -> list[Measured]:
    """A run through the proxy, a source for each length of prompt and answer in it."""
    setups = {each.name: each for each in run.setups}
    rows: dict[tuple[int, int], Rows] = defaultdict(lambda: defaultdict(dict))
    for step in steps:
        if step.target != "proxy" or step.setup not in setups or step.is_known:
            continue
        seen = figures(step, requests[step.name], None)
        lengths = (step.prompt_tokens or _mean(requests[step.name], "prompt_tokens"),
                   step.answer_tokens or _mean(requests[step.name], "answer_tokens"))  # fmt: skip
        values: dict[Figure, float | None] = {
            "prefill": seen.prefill_tok_s,
            "decode": seen.decode_tok_s,
            "ttft": seen.ttft_s.p50 if seen.ttft_s else None,
            "whole": seen.e2e_s.p50 if seen.e2e_s else None,
            "user": seen.user_tok_s,
        }
        for figure, value in values.items():
            if value:
                row = rows[lengths][setup_of(setups[step.setup]), figure]
                row[step.users] = (*row.get(step.users, ()), value)
    said = {(setup_of(each), users): each.why_not for each in run.setups if each.why_not for users in run.users}
    kind: Kind = "own run"
    return [Measured(kind, name, *lengths, one, said) for lengths, one in rows.items()]


def setup_of(measured: Measuring) -> Setup:
    """A run's setup, as it is called here."""
    stages = f", pipeline_parallel = {measured.stages}" if measured.stages > 1 else ""
    how = {"solo": "", "cluster": f"{measured.executor}{stages}", "replicas": measured.routing}
    return Setup(measured.topology, how[measured.topology], 0 if measured.topology == "solo" else measured.nodes)


def _mean(requests: list[Request], name: str) -> int:
    values = [value for each in requests if (value := getattr(each, name))]
    return round(fmean(values)) if values else 1


def _apart(measured: Measured, load: Load) -> float:
    """How far a source's prompt and answer are from the load's, in times."""
    prompt, answer = measured.prompt or load.prompt, measured.answer or load.answer
    return max(prompt / load.prompt, load.prompt / prompt) * max(answer / load.answer, load.answer / answer)
