"""Whether the models of a node fit into its memory together. On unified memory two that do not freeze the node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from operations.plan.engines import ENGINES
from operations.plan.nodes import Node
from operations.plan.recipe import Flag, Recipe
from operations.plan.refusal import Finding, Refusal
from operations.plan.served_model import ServedModel


def with_its_share(model: ServedModel, memory_gib: float) -> ServedModel:
    """The model with what the owner gives it of a node: that is what it waits for before a start, and what its engine
    is told to take. 0: as its recipe says.
    """
    if not memory_gib:
        return model
    recipe = model.recipe
    needs = recipe.needs.model_copy(
        update={"memory_gib": {model.knobs.of_an_engine.topology: memory_gib, "solo": memory_gib}}
    )
    recipe = recipe.model_copy(update={"needs": needs})
    # The smallest of its nodes: an engine's ranks have one share.
    total_mib = min((node.memory_mib for node in model.nodes), default=0)
    if recipe.needs.gpu and total_mib:
        recipe = _told(recipe, ENGINES[recipe.engine].SHARE, memory_gib * 1024 / total_mib)
    return replace(model, recipe=recipe)


def _told(recipe: Recipe, name: str, share: float) -> Recipe:
    """The recipe with this share of a node's memory in its flags; one whose engine has no flag for it is as it was."""
    others = tuple(each for each in recipe.flags if each.name != name)
    words = Flag(name=name, words=(f"--{name}", f"{share:.3f}"))
    return recipe.model_copy(update={"flags": (*others, words)}) if name else recipe


def need_gib(model: ServedModel, node: Node) -> float:
    """GiB that a model takes of a node: the owner's word, the recipe's, or its engine's share of the whole; 0: nobody
    says.
    """
    said = model.recipe.memory_gib(model.knobs.of_an_engine.topology)
    return said or (ENGINES[model.recipe.engine].memory(model.recipe).share or 0) * node.memory_mib / 1024


def check(models: Sequence[ServedModel], nodes: Sequence[Node], floor_gib: float) -> None:
    """Refuse models that do not fit side by side, node by node, with a table. One alone is the preflight's matter."""
    findings: list[Finding] = []
    tables: list[str] = []
    for node in nodes:
        here = [each for each in models if each.lies_on(node.name)]
        if len(here) < 2:
            continue
        needs = {each.name: need_gib(each, node) for each in here}
        findings += [
            Finding(
                f"models.{name}",
                f"shares {node.name} with {' and '.join(other for other in needs if other != name)}, and nobody says "
                "how much memory it takes",
                f'"{name}": {{"memory_gib": ...}}',
            )
            for name, need in needs.items()
            if not need
        ]
        limit = node.memory_mib / 1024 - floor_gib
        if node.memory_mib and sum(needs.values()) > limit:
            tables.append(_table(node, needs, floor_gib))
            problem = f"its models take {sum(needs.values()):.1f} GiB together, {limit:.1f} GiB is the limit"
            remedy = "give them less (memory_gib), or other nodes; the limit is its memory less memory_floor_gib"
            findings.append(Finding(node.name, problem, remedy))
    if findings:
        raise Refusal(*findings, table="".join(tables))


def _table(node: Node, needs: dict[str, float], floor_gib: float) -> str:
    rows = list(needs.items())
    total = node.memory_mib / 1024
    rows += [("sum", sum(needs.values())), ("limit", total - floor_gib)]
    width = max(len(name) for name, _ in rows)
    return "".join(f"\n    {node.name}  {name.ljust(width)}  {gib:7.1f} GiB" for name, gib in rows)
