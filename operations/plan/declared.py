"""What the owner declares: one model by the knobs themselves, or several, each with words of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operations.plan.config.knobs import BESIDE, MODELS, OF_A_MODEL, Knobs, are_models, read_knobs
from operations.plan.config.refusal import Finding, Refusal, nearest
from operations.plan.engines import ENGINES
from operations.plan.recipes.images import Image, engine_image, proxy_image
from operations.plan.recipes.recipe import SERVED_NAME, Recipe
from operations.wire import Json

#: What a model may be called: a part of the names of its unit, its container and its folder.
NAME = r"[a-z0-9]([a-z0-9-]{0,22}[a-z0-9])?"
#: What it may say, its own knobs first.
_WORDS = (*OF_A_MODEL, *BESIDE)
#: GiB that no node has, and minutes that nobody waits (ten years).
_TOO_MANY_GIB, _TOO_MANY_MINUTES = 1_000_000, 5_259_600
#: Minutes without a request after which a model on demand is unloaded.
IDLE_MINUTES = 30.0
#: The least of them: who was told to come back is there by then (KEPT_S of files/ondemand/tenants.py).
LEAST_IDLE_MINUTES = 2.0
#: Why only one engine on one node is loaded on demand.
_NOT_ON_DEMAND = {
    "cluster": "each node loads and unloads by itself, and a cluster's ranks only serve all at once",
    "replicas": "several engines are there for many requests at once, and for a node that fails",
}


@dataclass(frozen=True)
class DeclaredModel:
    """One model: its knobs, its recipe, and the names of the nodes that the owner has given it (none: by its topology).
    `memory_gib`: what it may have of each node's memory; 0: as its recipe says. `idle_minutes`: without a request,
    after which it is unloaded, since it is loaded on demand; 0: it stays loaded.
    """

    name: str
    knobs: Knobs
    recipe: Recipe
    nodes: tuple[str, ...] = ()
    memory_gib: float = 0.0
    idle_minutes: float = 0.0

    @property
    def title(self) -> str:
        """What it is called in messages."""
        return self.name or self.recipe.name

    @property
    def served_names(self) -> tuple[str, ...]:
        """What clients can ask for."""
        return (self.recipe.served_name, *ENGINES[self.recipe.engine].adapters(self.recipe))

    @property
    def pair(self) -> tuple[Recipe, Knobs]:
        return self.recipe, self.knobs

    def lies_on(self, names: Sequence[str]) -> tuple[str, ...]:
        """The names of its nodes, its leader first, among those of the inventory."""
        return self.nodes or tuple(names[:1] if self.knobs.topology == "solo" else names)


@dataclass(frozen=True)
class Declared:
    """All of it. `knobs`: those that are not one model's."""

    knobs: Knobs
    models: tuple[DeclaredModel, ...]

    @property
    def first(self) -> DeclaredModel:
        return self.models[0]

    @property
    def pairs(self) -> list[tuple[Recipe, Knobs]]:
        """Recipe and knobs of each."""
        return [each.pair for each in self.models]

    def serving(self, names: Sequence[str]) -> tuple[str, ...]:
        """Names of the nodes that have a part of any model, in the inventory's order."""
        found = {name for each in self.models for name in each.lies_on(names)}
        return tuple(name for name in names if name in found)


def chosen(of: Declared, name: Any) -> tuple[DeclaredModel, ...]:
    """The model that a verb was told by its name (`--model`), or all of them. Raises Refusal."""
    if not name:
        return of.models
    found = tuple(each for each in of.models if each.name == str(name))
    if not found:
        names = [each.name for each in of.models if each.name]
        remedy = nearest(str(name), names, f"the models are: {', '.join(names)}") if names else "leave the name out"
        raise Refusal(Finding("MODEL", f"no model is named `{name}`", remedy))
    return found


def one_of(of: Declared, name: Any) -> DeclaredModel:
    """The same for a verb that is about one model. Raises Refusal where it was told none of several."""
    found = chosen(of, name)
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise Refusal(Finding("MODEL", "several models are declared, and this is about one", f"name one of: {names}"))
    return found[0]


def images_of(of: Declared) -> list[Image]:
    """All images of the plan, each once, the first model's engine's first and the proxy's last."""
    engines = {each.local: each for each in (engine_image(each.recipe, each.knobs) for each in of.models)}
    return [*engines.values(), proxy_image(of.first.recipe, of.knobs)]


def of_models(data: Mapping[str, Any]) -> Json:
    """A host's data, with what is said of one value of one model for one run (`models.coder.topology=solo`) put into
    `models`. Raises Refusal where there is no such model, or no word of it is named.
    """
    dotted = {key: value for key, value in data.items() if key.startswith("models.")}
    rest = {key: value for key, value in data.items() if key not in dotted}
    declared = rest.get("models", {})
    if not dotted or not are_models(declared):
        # What is wrong with it is said where all knobs are read.
        return rest
    models = {name: dict(words) for name, words in declared.items()}
    for key, value in dotted.items():
        _, name, *word = key.split(".", 2)
        if name not in models:
            remedy = nearest(name, models, f"the models are: {', '.join(models) or 'none'}")
            raise Refusal(Finding("knob", f"`{key}`: no model is named `{name}`", f"{remedy}; models.NAME.KNOB=value"))
        if not word:
            problem = f"`{key}={value}` does not say which word of the model `{name}` it is for"
            raise Refusal(Finding("knob", problem, f"{key}.WORD=value; a model has: {', '.join(_WORDS)}"))
        models[name][word[0]] = value
    return {**rest, "models": models}


def knobs_of_models(knobs: Knobs, data: Mapping[str, Any]) -> dict[str, Knobs]:
    """By name, the knobs of each model: the general ones, and its own words in their place. Raises Refusal."""
    findings = list(_of_names(knobs.models))
    found: dict[str, Knobs] = {}
    for name, words in knobs.models.items():
        findings += _of_words(name, words)
        own = {word: words[word] for word in OF_A_MODEL if word in words}
        try:
            found[name] = read_knobs({**data, **own, "models": {}}, f"models.{name}.")
        except Refusal as refusal:
            findings += [Finding(f"models.{name}", each.problem, each.remedy) for each in refusal.findings]
        else:
            findings += _of_demand(name, words, found[name])
    if findings:
        raise Refusal(*findings)
    return found


def _of_names(models: Mapping[str, Any]) -> Iterator[Finding]:
    for name in models:
        if not re.fullmatch(NAME, name):
            problem = f"{name!r} is no name of a model: expected lower-case letters, digits and dashes, 24 at most"
            yield Finding("models", problem, "rename it: its unit, container and folder are called after it")
    if len(models) > MODELS:
        yield Finding("models", f"{len(models)} models, expected {MODELS} at most", "take some out")


def _of_words(name: str, words: Mapping[str, Any]) -> Iterator[Finding]:
    for word in words:
        if word in Knobs.model_fields and word not in _WORDS:
            remedy = "set it outside of `models`: it is the same for all of them"
            yield Finding(f"models.{name}", f"`{word}` is not one model's", remedy)
        elif word not in _WORDS:
            remedy = nearest(word, _WORDS, f"a model has: {', '.join(_WORDS)}")
            yield Finding(f"models.{name}", f"no knob of a model is named `{word}`", remedy)
    if "recipe" not in words:
        yield Finding(f"models.{name}", "has no recipe", f'"{name}": {{"recipe": ...}}')
    if "nodes" in words:
        yield from _of_nodes(f"models.{name}", words["nodes"])
    memory = words.get("memory_gib", 1)
    # Not a number (NaN) is neither more nor less.
    if isinstance(memory, bool) or not isinstance(memory, int | float) or not 0 < memory < _TOO_MANY_GIB:
        problem = f"memory_gib={memory!r}: expected GiB, more than 0 and less than {_TOO_MANY_GIB}"
        yield Finding(f"models.{name}", problem, '"memory_gib": 24')
    served = words.get("served_name", "x")
    if not isinstance(served, str) or not re.fullmatch(SERVED_NAME, served):
        problem = f"served_name={served!r}: expected text of letters, digits and ./:+-"
        yield Finding(f"models.{name}", problem, "give it another one, in quotes; or take it out: the recipe has one")


def _of_demand(name: str, words: Mapping[str, Any], own: Knobs) -> Iterator[Finding]:
    """What is wrong with how a model is loaded on demand. `own`: its knobs."""
    where, on_demand, minutes = f"models.{name}", _is_on_demand(words), words.get("idle_minutes", IDLE_MINUTES)
    if on_demand is None:
        yield Finding(where, f"on_demand={words['on_demand']!r}: expected True or False", '"on_demand": True')
        return
    # Not a number (NaN) is neither more nor less.
    if (
        isinstance(minutes, bool)
        or not isinstance(minutes, int | float)
        or not (LEAST_IDLE_MINUTES <= minutes < _TOO_MANY_MINUTES)
    ):
        least = f"{LEAST_IDLE_MINUTES:g} at the least and less than {_TOO_MANY_MINUTES}"
        problem = f"idle_minutes={minutes!r}: expected minutes, {least}"
        yield Finding(where, problem, f'"idle_minutes": {IDLE_MINUTES:g}; a model without `on_demand` stays loaded')
    elif "idle_minutes" in words and not on_demand:
        problem = f"idle_minutes={minutes:g}, and it is not on demand: it stays loaded"
        yield Finding(where, problem, 'add "on_demand": True, or take idle_minutes out')
    if on_demand and own.topology != "solo":
        problem = f"on_demand with topology={own.topology}: {_NOT_ON_DEMAND[own.topology]}"
        yield Finding(where, problem, '"topology": "solo", with one node in `nodes`; or take on_demand out')


def _is_on_demand(words: Mapping[str, Any]) -> bool | None:
    """What a model says of it; with --data it is a word. None: it is neither."""
    said = words.get("on_demand", False)
    return said if isinstance(said, bool) else {"True": True, "False": False}.get(str(said))


def _of_nodes(where: str, nodes: Any) -> Iterator[Finding]:
    names = _names(nodes) if _are_names(nodes) else ()
    if not names:
        remedy = '"nodes": ["spark-1", "spark-2"]; or take it out: the topology says them'
        yield Finding(where, f"nodes={nodes!r}: expected names of nodes", remedy)
    elif len(set(names)) < len(names):
        yield Finding(where, f"nodes={nodes!r} names a node twice", "name each once")


def _are_names(nodes: Any) -> bool:
    return isinstance(nodes, str) or (isinstance(nodes, list | tuple) and all(isinstance(each, str) for each in nodes))


def _names(nodes: Any) -> tuple[str, ...]:
    """A list; with --data, words with a comma between them."""
    words = nodes.split(",") if isinstance(nodes, str) else nodes
    return tuple(word.strip() for word in words if word.strip())


def declared_model(name: str, knobs: Knobs, recipe: Recipe, words: Mapping[str, Any]) -> DeclaredModel:
    """A model of the knob `models`: `words` are its entry there, `knobs` those that hold for it.

    Its recipe gets the served name of the entry. Entries are checked before: a word of a wrong kind raises ValueError.
    """
    if served := words.get("served_name"):
        recipe = recipe.model_copy(update={"served_name": served})
    idle_minutes = float(words.get("idle_minutes", IDLE_MINUTES)) if _is_on_demand(words) else 0.0
    return DeclaredModel(
        name, knobs, recipe, _names(words.get("nodes", ())), float(words.get("memory_gib", 0)), idle_minutes
    )


def check_names(models: Sequence[DeclaredModel]) -> None:
    """Refuse two models that clients could not tell apart."""
    owners: dict[str, str] = {}
    findings = []
    for each in models:
        for name in each.served_names:
            if name in owners and owners[name] != each.name:
                problem = f"serves `{name}`, and so does `{owners[name]}`: clients could not choose"
                findings.append(Finding(f"models.{each.name}", problem, f'"{each.name}": {{"served_name": ...}}'))
            owners.setdefault(name, each.name)
    if findings:
        raise Refusal(*findings)


def check_nodes(of: Declared, names: Sequence[str]) -> None:
    """Refuse nodes that the inventory does not have."""
    findings = [
        Finding(
            f"models.{each.name}",
            f"no node of the inventory is named `{node}`",
            nearest(node, names, f"the nodes are: {', '.join(names)}"),
        )
        for each in of.models
        for node in each.nodes
        if node not in names
    ]
    if findings:
        raise Refusal(*findings)
