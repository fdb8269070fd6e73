"""Fits the estimate's constants to published tables, and says how far off it is on a model that it has not seen."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from statistics import fmean, median

from bench import published
from bench.advise import models, physics
from bench.advise.curves import Base
from bench.advise.evidence import SHORT, Estimated, Evidence
from bench.advise.load import Load
from bench.advise.measured import setup_of_cell, tables
from bench.advise.setups import Setup
from bench.published import Cell
from operations.plan.recipes.formats import load_recipe

#: The models of the articles with whole tables, by repository: what the estimate is judged on.
JUDGED = ("openai/gpt-oss-120b", "google/gemma-4-26B-A4B-it", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4")
#: As they are known or thought before any table: what the rows at hand do not determine stays near them.
_START = physics.Constants(
    layer_us=60, reduce_us=60, link_gb_s=12, tflops=200, spread=0.85, passes=100, attention_tflops=50
)
_PRIOR = 0.005


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
        load = self.cell.load
        prompt, answer = load.prompt or SHORT, load.answer or 128
        seen = _base(self.model, constants, setup_of_cell(self.cell), prompt, answer)(self.cell.users)
        return Miss(self.cell, _figure(seen, self.cell, prompt, answer))


@functools.lru_cache(maxsize=128)
def _base(model: models.Model, constants: physics.Constants, setup: Setup, prompt: int, answer: int) -> Base:
    """One for all numbers of users of a table."""
    return Estimated(model, 1.0, constants).over(setup, Load(1, prompt, answer))


def _figure(seen: physics.Point, cell: Cell, prompt: int, answer: int) -> float:
    if cell.figure == "ttft":
        return seen.first * 1000
    if cell.figure == "prefill":
        return cell.users * prompt / (seen.first + seen.gap)
    return seen.decode(cell.users, answer)


@functools.cache
def points() -> tuple[Point, ...]:
    """Every published figure that is a number, of a model that is known as it was served.

    Left out: least-busy, whose figures are LiteLLM's fault and not the hardware's, what has no length of answer, and
    several users who asked the same.
    """
    found = []
    for cell in published.cells():
        if cell.value is None or cell.column == "least-busy" or not cell.load.answer or _is_one_text(cell):
            continue
        model = _model(cell)
        if model:
            found.append(Point(cell, model))
    return tuple(found)


def _is_one_text(cell: Cell) -> bool:
    """A dense model reads the same for whatever is asked."""
    model = _model(cell)
    return cell.is_alike and bool(model and model.experts > 1)


def _model(cell: Cell) -> models.Model | None:
    """None: it is not known, or how it was quantised is not."""
    setup = cell.setup
    if setup.recipe:
        recipe = load_recipe(setup.recipe)
        return models.known(recipe.model.repo, recipe.model.weights_gib, setup.dense_bits)
    if setup.dense_bits is None and setup.weights_gib is None:
        return None
    return models.known(setup.model, setup.weights_gib, setup.dense_bits)


def fit(data: Iterable[Point], start: physics.Constants = _START) -> physics.Constants:
    """The constants with the least mean error, each of them moved in turn by less and less."""
    data = list(data)
    best, least = start, _cost(data, start)
    moves = dict.fromkeys(asdict(start), 0.5)
    while max(moves.values()) > 0.02:
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
    away = sum(math.log(value / asdict(_START)[name]) ** 2 for name, value in asdict(constants).items())
    return fmean(point.miss(constants).ratio for point in data) + _PRIOR * away


def _misses(of: Callable[[Point], object]) -> tuple[Miss, ...]:
    """Figures of each kind in turn, estimated with constants that were fitted to all others."""
    data, found = points(), list[Miss]()
    for kind in dict.fromkeys(of(point) for point in data):
        constants = fit((point for point in data if of(point) != kind), physics.FITTED)
        found += [point.miss(constants) for point in data if of(point) == kind]
    return tuple(found)


@functools.cache
def left_out() -> tuple[Miss, ...]:
    """Each model's figures, estimated without any of that model."""
    return _misses(lambda point: point.cell.setup.model)


@functools.cache
def nodes_left_out() -> tuple[Miss, ...]:
    """Figures of one node, of clusters of two and of four, each estimated without any other of as many."""
    return _misses(lambda point: setup_of_cell(point.cell).ranks)


@functools.cache
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
            load, setup = point.cell.load, setup_of_cell(point.cell)
            prompt, answer = load.prompt or SHORT, load.answer or 128
            seen = known.known(setup, Load(1, prompt, answer))
            if setup.topology != "solo" and seen:
                found.append(Miss(point.cell, _figure(seen.curve.at(point.cell.users), point.cell, prompt, answer)))
    return tuple(found)


def typical(misses: Iterable[Miss]) -> tuple[float, Miss]:
    """The median error as a share, without its sign, and the worst."""
    misses = list(misses)
    return median(abs(each.error) for each in misses), max(misses, key=lambda each: abs(each.error))
