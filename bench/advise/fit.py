"""Fits the estimate's constants to published tables, and says how far off it is on a model that it has not seen."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from statistics import fmean, median

from bench import published
from bench.advise import models, physics
from bench.advise.evidence import SHORT, Estimated, Evidence, Setup
from bench.advise.load import Load
from bench.advise.measured import setup_of_cell, tables
from bench.published import Cell
from operations.plan.formats import load_recipe

#: The models of the articles with whole tables, by repository: what the estimate is judged on.
JUDGED = ("openai/gpt-oss-120b", "google/gemma-4-26B-A4B-it", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4")
_START = physics.Constants(layer_us=40, reduce_us=60, link_gb_s=12, tflops=50, spread=0.8, passes=20)


@dataclass(frozen=True)
class Miss:
    """A published figure and what is estimated for it."""

    cell: Cell
    estimated: float

    @property
    def error(self) -> float:
        """As a share of what was published."""
        assert self.cell.value
        return self.estimated / self.cell.value - 1

    @property
    def ratio(self) -> float:
        """As a logarithm: half as much and twice as much are equally wrong."""
        assert self.cell.value
        return abs(math.log(self.estimated / self.cell.value))


@dataclass(frozen=True)
class Point:
    """A published figure, and the model as it was served."""

    cell: Cell
    model: models.Model

    def miss(self, constants: physics.Constants) -> Miss:
        """With an estimate of these constants."""
        load = self.cell.article.load
        prompt, answer = load.prompt or SHORT, load.answer or 128
        known = Estimated(self.model, 1.0, constants)
        seen = known.over(setup_of_cell(self.cell), Load(1, prompt, answer))(self.cell.users)
        return Miss(self.cell, _figure(seen, self.cell, prompt, answer))


def _figure(seen: physics.Point, cell: Cell, prompt: int, answer: int) -> float:
    if cell.figure == "ttft":
        return seen.first * 1000
    if cell.figure == "prefill":
        return cell.users * prompt / (seen.first + seen.gap)
    return seen.decode(cell.users, answer)


def points() -> list[Point]:
    """Every published figure that is a number, of a recipe that corresponds and a model that is known.

    Left out: least-busy, whose figures are LiteLLM's fault and not the hardware's, and what has no length of answer.
    """
    found = []
    for cell in published.cells():
        if not cell.setup.recipe or cell.value is None or cell.column == "least-busy" or not cell.article.load.answer:
            continue
        recipe = load_recipe(cell.setup.recipe)
        model = models.known(recipe.model.repo, recipe.model.weights_gib, cell.setup.dense_bits)
        if model:
            found.append(Point(cell, model))
    return found


def fit(data: Iterable[Point], start: physics.Constants = _START) -> physics.Constants:
    """The constants with the least mean error, each of them moved in turn by less and less."""
    data = list(data)
    best, least = start, _cost(data, start)
    moves = dict.fromkeys(asdict(start), 0.5)
    while max(moves.values()) > 0.01:
        for name, move in moves.items():
            for sign in (1, -1):
                tried = replace(best, **{name: getattr(best, name) * math.exp(sign * move)})
                cost = _cost(data, tried)
                if cost < least - 1e-6:
                    best, least = tried, cost
                    moves[name] = move * 1.3
                    break
            else:
                moves[name] = move * 0.6
    return best


def _cost(data: Iterable[Point], constants: physics.Constants) -> float:
    return fmean(point.miss(constants).ratio for point in data)


@functools.cache
def left_out() -> tuple[Miss, ...]:
    """Each judged model's figures, estimated with constants that were fitted to all others."""
    data, found = points(), list[Miss]()
    for judged in JUDGED:
        constants = fit((point for point in data if point.cell.setup.model != judged), physics.FITTED)
        found += [point.miss(constants) for point in data if point.cell.setup.model == judged]
    return tuple(found)


def from_solo() -> tuple[Miss, ...]:
    """What is computed of replicas and clusters where solo's rows of a table are all that is known."""
    found = list[Miss]()
    for judged in JUDGED:
        data = [point for point in points() if point.cell.setup.model == judged]
        recipe = load_recipe(data[0].cell.setup.recipe)
        (source, *_) = tables(recipe)
        solo = replace(source, rows={key: rows for key, rows in source.rows.items() if key[0] == Setup("solo")})
        known = Evidence([solo], Estimated(data[0].model, 1.0))
        for point in data:
            load, setup = point.cell.article.load, setup_of_cell(point.cell)
            prompt, answer = load.prompt or SHORT, load.answer or 128
            seen = known.known(setup, Load(1, prompt, answer))
            if setup.topology != "solo" and seen:
                found.append(Miss(point.cell, _figure(seen.curve.at(point.cell.users), point.cell, prompt, answer)))
    return tuple(found)


def typical(misses: Iterable[Miss]) -> tuple[float, Miss]:
    """The median error as a share, without its sign, and the worst."""
    misses = list(misses)
    return median(abs(each.error) for each in misses), max(misses, key=lambda each: abs(each.error))
