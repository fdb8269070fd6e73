"""What a recipe says against the engine that will run it: words that do nothing there, or too much.

The truth is the image: its vocabulary (files/engine/vocabulary.py), asked on the node. Until the image is there, a
vocabulary of the same release stands in for it (files/vocabularies), and where its version is not known, those of all
releases together. What none of them knows may be a word of that image alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from operations.plan.engines import ENGINES
from operations.plan.knobs import Knobs
from operations.plan.lint import letters, rules, stages, tensorrt_llm, versions, words
from operations.plan.lint.subject import Subject, Vocabulary, shipped
from operations.plan.recipe import Recipe
from operations.plan.refusal import Remark

_Check = Callable[[Subject], Iterator[Remark]]
_VLLM: tuple[_Check, ...] = (
    *(letters.signs, letters.braces, words.variables, words.flags, words.parsers, words.kernels, versions.variables),
    *(rules.plugins, rules.disabled_kernels, rules.memory, rules.fits, rules.blocks, rules.eager, rules.speculation),
    *(rules.ray, stages.wish, stages.speculation, stages.partition),
)
_BY_ENGINE: dict[str, tuple[_Check, ...]] = {
    "vllm": _VLLM,
    "tensorrt-llm": (letters.signs, letters.braces, tensorrt_llm.names, tensorrt_llm.memory, rules.fits),
}


def lint(
    recipe: Recipe, knobs: Knobs, *, image: Vocabulary | None = None, nodes: int = 2, mtp: bool | None = None
) -> list[Remark]:
    """Every remark on a recipe as it would be run with these knobs.

    `image`: the vocabulary that the image itself has told. `nodes`: how many share a cluster's weights. `mtp`: what
    the model's own configuration says of layers for multi-token prediction.
    """
    subject = Subject(recipe, knobs, image or shipped(recipe), image is not None, nodes, mtp)
    checks = _BY_ENGINE[recipe.engine]
    found = [*recipe.remarks, *_topology(subject), *(remark for check in checks for remark in check(subject))]
    return list(dict.fromkeys(found))


def judge_of(recipe: Recipe, knobs: Knobs) -> str:
    """By what a recipe is judged until its image has been asked."""
    subject = Subject(recipe, knobs, shipped(recipe), False)
    return subject.who if subject.version else f"{subject.who}, because its own version is not known"


def _topology(of: Subject) -> Iterator[Remark]:
    able = ENGINES[of.recipe.engine].TOPOLOGIES
    if of.knobs.topology not in able:
        problem = f"{of.recipe.engine} does not run in topology={of.knobs.topology} here"
        yield Remark(True, problem, f"set topology to {' or '.join(able)}")
