"""Whether the models of a node fit into its memory together. On unified memory two that do not freeze the node."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from operations.plan.cluster.nodes import Node
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.declared import DeclaredModel
from operations.plan.engines import ENGINES
from operations.plan.recipes.lint.room import BESIDE_GIB, known_gib
from operations.plan.recipes.recipe import Flag, Recipe
from operations.plan.services import demand

_REMEDY = "give them less (memory_gib), or other nodes; the limit is its memory less memory_floor_gib"


def with_its_share(model: ServedModel, memory_gib: float) -> ServedModel:
    """The model with what the owner gives it of a node: that is what it waits for before a start, and what its engine
    is told to take. 0: as its recipe says, which its engine is told where another model shares a node with it.
    """
    recipe, topology = model.recipe, model.knobs.of_an_engine.topology
    if memory_gib:
        needs = recipe.needs.model_copy(update={"memory_gib": {topology: memory_gib, "solo": memory_gib}})
        recipe = recipe.model_copy(update={"needs": needs})
    elif not any(model.beside.values()):
        return model
    counted = recipe.memory_gib(topology)
    # The smallest of its nodes: an engine's ranks have one share.
    total_mib = min((node.memory_mib for node in model.nodes), default=0)
    if recipe.needs.gpu and counted and total_mib:
        # Rounded down: told a share that is more than was counted, an engine would want more than is there for it.
        # In hundredths: a kernel that keeps some MiB more for itself starts no engine anew.
        share = math.floor(counted * 1024 / total_mib * 100) / 100
        recipe = _told(recipe, ENGINES[recipe.engine].SHARE, share)
    return replace(model, recipe=recipe)


def _told(recipe: Recipe, name: str, share: float) -> Recipe:
    """The recipe with this share of a node's memory in its flags; one whose engine has no flag for it is as it was."""
    others = tuple(each for each in recipe.flags if each.name != name)
    words = Flag(name=name, words=(f"--{name}", f"{share:.2f}"))
    return recipe.model_copy(update={"flags": (*others, words)}) if name else recipe


def need_gib(model: ServedModel, node: Node) -> float:
    """GiB that a model takes of a node: the owner's word or the recipe's, and what its engine wants to find; 0: nobody
    says.
    """
    return demand.taken_gib(model, node.memory_mib / 1024)


def check(
    declared: Sequence[DeclaredModel], models: Sequence[ServedModel], nodes: Sequence[Node], floor_gib: float
) -> None:
    """Refuse models that do not fit side by side, node by node, with a table, and what can't be held to its part. A
    model on demand has to fit beside the ones that stay loaded, one at a time, and so has the only one. One alone that
    stays loaded, and whose memory the owner does not say, is the preflight's matter.
    """
    findings = [
        finding for said, each in zip(declared, models, strict=True) for finding in _of_one(each, said.memory_gib)
    ]
    tables: list[str] = []
    for node in nodes:
        here = [each for each in models if each.lies_on(node.name)]
        if len(here) < 2 and not any(each.is_on_demand for each in here):
            continue
        stay = {each.name: need_gib(each, node) for each in here if not each.is_on_demand}
        comes = {each.name: need_gib(each, node) for each in here if each.is_on_demand}
        limit = node.memory_mib / 1024 - floor_gib
        if not node.memory_mib:
            continue
        if sum(stay.values()) > limit:
            tables.append(_table(node, stay, floor_gib))
            problem = f"its models take {sum(stay.values()):.1f} GiB together, {limit:.1f} GiB is the limit"
            findings.append(Finding(node.name, problem, _REMEDY))
            continue
        for name in (name for name, gib in comes.items() if sum(stay.values()) + gib > limit):
            tables.append(_table(node, stay | {name: comes[name]}, floor_gib))
            left = limit - sum(stay.values())
            beside = f"beside {' and '.join(stay)}, which stay loaded" if stay else "even alone"
            problem = f"{name} takes {comes[name]:.1f} GiB on demand, {left:.1f} GiB are left for it {beside}"
            findings.append(Finding(node.name, problem, _REMEDY))
    if findings:
        raise Refusal(*findings, table="".join(tables))


def _of_one(model: ServedModel, memory_gib: float) -> Iterator[Finding]:
    """What keeps a model from being held to its part of a node. `memory_gib`: the owner's word; 0: there is none."""
    where, engine, gpu = f"models.{model.name}", ENGINES[model.recipe.engine], model.recipe.needs.gpu
    shared = next((node for node in model.nodes if model.shares(node)), None)
    said = f"memory_gib={memory_gib:g}" if memory_gib else ""
    beside = f"shares {shared.name} with {' and '.join(model.beside[shared.name])}" if shared else ""
    if not said and not beside:
        return
    counted, (known, what) = need_gib(model, shared or model.leader), _known(model)
    if gpu and not (engine.SHARE or engine.HELD):
        remedy = f"{'take it out, and ' if said else ''}give the model nodes of its own, or a recipe of another engine"
        yield Finding(where, f"{said or beside}: {engine.TITLE} can't be told its share of a node's memory", remedy)
    elif not counted:
        problem = f"{beside}, and nobody says how much memory it takes"
        yield Finding(where, problem, f'"{model.name}": {{"memory_gib": ...}}')
    elif gpu and engine.SHARE and memory_gib and counted > memory_gib:
        problem = f"{said}, and told so {engine.TITLE} wants {counted:.1f} GiB free: its share is one of what it finds"
        yield Finding(where, problem, f"give it more, or nodes of its own and no memory_gib, with {engine.SHARE}")
    elif gpu and counted < known:
        least, given = math.ceil(known), said or f"{counted:.1f} GiB of each node are counted for it"
        remedy = f'"{model.name}": {{"memory_gib": {least}}} at least, or other nodes'
        yield Finding(where, f"{given}, and it takes {known:.1f} GiB: {what}", remedy)


def _known(model: ServedModel) -> tuple[float, str]:
    """GiB that a model takes of each node as far as that is known, and of what, in words."""
    recipe, parts = model.recipe, model.parts
    kv_gib = (ENGINES[recipe.engine].memory(recipe).cache_bytes or 0.0) / 2**30
    weights = (recipe.weights_gib or 0.0) / parts
    said = [f"{gib:.1f} of {what}" for gib, what in ((weights, "weights"), (kv_gib, "KV cache")) if gib]
    return known_gib(recipe, parts, kv_gib), f"{', '.join(said)}, {BESIDE_GIB:.1f} beside that"


def _table(node: Node, needs: dict[str, float], floor_gib: float) -> str:
    rows = list(needs.items())
    total = node.memory_mib / 1024
    rows += [("sum", sum(needs.values())), ("limit", total - floor_gib)]
    width = max(len(name) for name, _ in rows)
    return "".join(f"\n    {node.name}  {name.ljust(width)}  {gib:7.1f} GiB" for name, gib in rows)
