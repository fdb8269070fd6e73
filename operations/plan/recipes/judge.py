"""What a recipe says against the engine that will run it: words that do nothing there, or too much.

The truth is the image: its vocabulary (files/engine/vocabulary.py), asked on the node where the engine's class knows
how. Until the image is there, a vocabulary of the same release stands in for it (files/vocabularies), and where its
version is not known, those of all releases together. What none of them knows may be a word of that image alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.cluster import nccl
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Remark
from operations.plan.engines import ENGINES, kept
from operations.plan.recipes.lint import letters
from operations.plan.recipes.lint.subject import Subject, shipped
from operations.plan.recipes.recipe import Recipe
from operations.wire.model import Vocabulary


def lint(
    recipe: Recipe, knobs: Knobs, *, image: Vocabulary | None = None, nodes: int = 2, mtp: bool | None = None
) -> list[Remark]:
    """Every remark on a recipe as it would be run with these knobs.

    `image`: the vocabulary that the image itself has told. `nodes`: how many share a cluster's weights. `mtp`: what
    the model's own configuration says of layers for multi-token prediction.
    """
    runs = ENGINES[recipe.engine]
    subject = Subject(recipe, knobs, image or shipped(recipe), image is not None, nodes, mtp, runs.TITLE)
    found = [*recipe.remarks, *_topology(subject), *letters.signs(subject), *letters.braces(subject)]
    found += [*kept.lost(recipe, runs.CACHES), *nccl.remarks(recipe, knobs)]
    return list(dict.fromkeys([*found, *runs.lint(subject)]))


def judge_of(recipe: Recipe, knobs: Knobs) -> str:
    """By what a recipe is judged until its image has been asked."""
    runs = ENGINES[recipe.engine]
    return runs.judged_by(Subject(recipe, knobs, shipped(recipe), False, title=runs.TITLE))


def _topology(of: Subject) -> Iterator[Remark]:
    runs, engine = ENGINES[of.recipe.engine], of.recipe.engine
    if of.knobs.topology not in runs.TOPOLOGIES:
        problem = f"{engine} does not run in topology={of.knobs.topology} here" + (
            f": {runs.ALONE}" if runs.ALONE else ""
        )
        yield Remark(True, problem, f"set topology to {' or '.join(runs.TOPOLOGIES)}")
    elif of.knobs.topology == "cluster" and of.knobs.executor not in runs.EXECUTORS:
        problem = f"the ranks of {engine} are not joined by executor={of.knobs.executor} here"
        yield Remark(True, problem, f"set executor to {' or '.join(runs.EXECUTORS)}")
