"""Ways to load weights, which the knob `loader` names: what each needs, where it went wrong, and what `auto` takes.

On a GB10 an engine's own way reads safetensors through mapped pages, a few hundred MB a second; these read files as
fast as the disk (docs/starts.md). None of them was measured on a GB10 by Tandem, so `engine` is the default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.recipes.lint.subject import parse
from operations.plan.recipes.recipe import Flag, Recipe, canonical
from operations.wire.starts import LoaderChoice

AUTO, ENGINE = "auto", "engine"


@dataclass(frozen=True)
class Loader:
    """`flags` of the engine's that choose it; `package`: the Python package that an image has to have, empty: none;
    `at_least`: release of the engine -> the package's version that it needs from there on. `since`: the first release
    of the engine that has it. `unsafe`: pattern of models (lower case) that it went wrong with. `fault`: pattern of
    its own words in a failure. `beside_gib`: memory that it takes beside the model while it loads, which on a GB10 is
    the GPU's (measured with files of 4 GiB, docs/starts.md). `is_chosen`: `auto` takes it. `source`: where all that was
    read.
    """

    flags: tuple[str, ...]
    source: str
    package: str = ""
    since: str = ""
    at_least: tuple[tuple[str, str], ...] = ()
    unsafe: str = ""
    fault: str = ""
    beside_gib: float = 0.0
    is_chosen: bool = False


def check(recipe: Recipe, knobs: Knobs, loaders: Mapping[str, Loader], title: str, words: Sequence[str]) -> None:
    """Refuse a loader that the engine, or its release, has not. `words`: flags by which a recipe says its own."""
    name = knobs.loader
    if name in (AUTO, ENGINE) or says_its_own(recipe, words):
        return
    if name not in loaders:
        known = ", ".join((AUTO, ENGINE, *loaders))
        problem = f"loader={name}: {title} of the recipe {recipe.name} has no such loader"
        raise Refusal(Finding("knob", problem, f"choose one of: {known}"))
    loader, version = loaders[name], recipe.engine_version or ""
    if version and loader.since and parse(version) < parse(loader.since):
        problem = f"loader={name}: {title} {version} of the recipe {recipe.name} has it from {loader.since} on"
        raise Refusal(Finding("knob", problem, "take loader=engine, or a recipe with a newer image"))


def says_its_own(recipe: Recipe, words: Sequence[str]) -> bool:
    """Whether the recipe itself says how weights are loaded: then the knob says nothing."""
    return any(recipe.flag(word) is not None for word in words)


def told(recipe: Recipe, knobs: Knobs, loaders: Mapping[str, Loader], words: Sequence[str]) -> Recipe:
    """The recipe with the flags of the loader that the knob names, where it names one."""
    loader = loaders.get(knobs.loader)
    if loader is None or says_its_own(recipe, words):
        return recipe
    added = Flag(name=canonical(loader.flags[0]), words=loader.flags)
    return recipe.model_copy(update={"flags": (*recipe.flags, added)})


def choices(
    recipe: Recipe, knobs: Knobs, loaders: Mapping[str, Loader], words: Sequence[str], free_gib: float
) -> list[LoaderChoice]:
    """What `auto` may take for an engine, the first one that its image has; none: the engine's own way. `free_gib`:
    what a start demands to find free, so that a loader has room beside the weights. Where the recipe does not say those
    of each of its models there is no room: a node without memory freezes.

    A cluster keeps that: all its ranks must load alike, and each would decide by itself; and both fast loaders were
    seen to go wrong over several nodes (eugr/spark-vllm-docker #29, #377). So does what is no plain safetensors.
    """
    if knobs.loader != AUTO or knobs.topology == "cluster" or not recipe.needs.gpu or says_its_own(recipe, words):
        return []
    known = [each.weights_gib for each in recipe.models if each.weights_gib is not None]
    room = free_gib - sum(known) if len(known) == len(recipe.models) else 0.0
    return [
        _choice(name, each, recipe)
        for name, each in loaders.items()
        if each.is_chosen and is_safe(each, recipe) and each.beside_gib <= room
    ]


def is_safe(loader: Loader, recipe: Recipe) -> bool:
    """Whether nobody has seen it go wrong with this model and release."""
    version, repo = recipe.engine_version or "", recipe.model.repo.lower()
    is_there = not version or not loader.since or parse(version) >= parse(loader.since)
    quantized = str(recipe.flag("quantization") or "").lower()
    return (
        is_there
        and quantized not in ("bitsandbytes", "gguf")
        and not (loader.unsafe and re.search(loader.unsafe, repo))
    )


def _choice(name: str, loader: Loader, recipe: Recipe) -> LoaderChoice:
    version = recipe.engine_version or ""
    # Where the release is not known the newest demand counts.
    needs = [least for since, least in loader.at_least if not version or parse(version) >= parse(since)]
    return {
        "name": name,
        "package": loader.package,
        "at_least": needs[-1] if needs else "",
        "flags": list(loader.flags),
    }
