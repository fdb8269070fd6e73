"""The programs that serve a model. A further one is a file beside these, and a line here."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase

from operations.plan.engines.base import Engine
from operations.plan.engines.llama_cpp import LlamaCpp
from operations.plan.engines.named import Named, reference
from operations.plan.engines.sglang import SgLang
from operations.plan.engines.tensorrt_llm import TensorRtLlm
from operations.plan.engines.vllm import Vllm
from operations.plan.recipes.recipe import Model, Recipe

ENGINES: dict[str, Engine] = {
    "vllm": Vllm(),
    "tensorrt-llm": TensorRtLlm(),
    "sglang": SgLang(),
    "llama-cpp": LlamaCpp(),
}


def named(recipe: Recipe) -> list[Named]:
    """What the recipe's flags name beside the model, each once."""
    found: list[Named] = []

    def collect(each: Named) -> str:
        found.append(each)
        return each.text

    ENGINES[recipe.engine].placed(recipe, collect)
    return list(dict.fromkeys(found))


def addresses() -> tuple[str, ...]:
    """Variables by which engines are told a node's address: the plan's, like OWNED_ENV."""
    return tuple(name for runs in ENGINES.values() for name in runs.ADDRESS)


def counters() -> dict[str, list[str]]:
    """Counters of ours -> their names in any engine: whose they are is asked of none."""
    found: dict[str, list[str]] = {}
    for runs in ENGINES.values():
        for name, theirs in runs.COUNTERS.items():
            found.setdefault(name, []).extend(theirs)
    return found


def missing_files(recipe: Recipe, model: Model, files: Collection[str]) -> list[str]:
    """Files of a model that it or flags name, and that are not among those that it has. One of its patterns has to be
    met: they are spellings of one file's name, and what is only perhaps there (a projector).
    """
    references = [reference(recipe, each) for each in named(recipe) if each.kind in ("file", "gguf")]
    names = [each.rest.lstrip("/") for each in references if each and each.repo == model.repo]
    exact = [each for each in model.files if not any(sign in each for sign in "*?[")]
    patterns = [each for each in model.files if each not in exact and "mmproj" not in each]
    is_met = any(fnmatchcase(name, each) for name in files for each in patterns if "mmproj" not in name)
    missing = [name for name in dict.fromkeys((*names, *exact)) if name and name not in files]
    return missing if is_met or not patterns else [*missing, " or ".join(patterns)]
