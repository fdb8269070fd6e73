"""A cluster's ranks: one a node, in the stages of a pipeline. Each stage has some of the model's layers, and its nodes
share those: they are tensor-parallel.

vLLM counts its ranks stage by stage (0.32: initialize_model_parallel), so the nodes of a stage are neighbours in the
inventory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.engines import ENGINES
from operations.plan.recipes.recipe import Recipe


def check_groups(recipe: Recipe, knobs: Knobs, nodes: int, has: str, add: str) -> None:
    """Refuse replicas whose groups can't be, before any node is asked. `has`, `add`: in words, what has the nodes, and
    where more would come to.
    """
    size = knobs.nodes_per_replica
    said = f"nodes_per_replica={size}"
    if knobs.topology != "replicas":
        problem = f"{said} with topology={knobs.topology}: only replicas lie on groups of nodes"
        raise Refusal(Finding("knob", problem, "set nodes_per_replica to 1, or topology to replicas"))
    if "cluster" not in recipe.topologies:
        runs_in = ", ".join(recipe.topologies)
        problem = f"{said}: each group is a cluster, and the recipe {recipe.name} runs in: {runs_in}"
        raise Refusal(Finding("knob", problem, "set nodes_per_replica to 1, or choose another recipe"))
    if nodes < 2 * size:
        problem = f"{said} wants {2 * size} nodes or more, two groups at least; {has} {nodes}"
        remedy = f"add nodes to {add}, or set nodes_per_replica to 1 and topology to cluster"
        raise Refusal(Finding("knob", problem, remedy))
    if nodes % size:
        fitting = [each for each in _stages(nodes) if 2 * each <= nodes]
        problem = f"{said} does not divide {nodes} nodes ({has} so many): all groups have the same number of nodes"
        raise Refusal(Finding("knob", problem, f"set it to {_one_of(fitting)}, or change the number of nodes"))
    if size < recipe.min_nodes:
        problem = f"{said}: the recipe {recipe.name} wants {recipe.min_nodes} nodes or more for one engine"
        raise Refusal(Finding("knob", problem, f"set it to {recipe.min_nodes} or more, or choose another recipe"))
    stages = knobs.pipeline_parallel
    if stages > 1 and not ENGINES[recipe.engine].PIPELINES:
        remedy = "set pipeline_parallel to 1, or choose a recipe of another engine"
        raise Refusal(Finding("knob", f"pipeline_parallel={stages}: {recipe.engine} has no stages here", remedy))
    if size % stages:
        problem = f"pipeline_parallel={stages} does not divide the {size} nodes of a group (nodes_per_replica)"
        raise Refusal(Finding("knob", problem, f"set it to {_one_of(_stages(size))}"))


def check_ranks(recipe: Recipe, knobs: Knobs, nodes: int) -> None:
    """Refuse stages that there can't be, before any node is asked."""
    stages = knobs.pipeline_parallel
    said = f"pipeline_parallel={stages}"
    if stages == 1:
        return
    if knobs.topology != "cluster":
        problem = f"{said} with topology={knobs.topology}: only a cluster has stages"
        groups = ", or nodes_per_replica to 2 or more" if knobs.topology == "replicas" else ""
        raise Refusal(Finding("knob", problem, f"set pipeline_parallel to 1, or topology to cluster{groups}"))
    if not ENGINES[recipe.engine].PIPELINES:
        remedy = "set pipeline_parallel to 1, or choose a recipe of another engine"
        raise Refusal(Finding("knob", f"{said}: {recipe.engine} has no pipeline stages here", remedy))
    if stages > nodes:
        problem = f"{said} wants {stages} nodes or more, one for each stage; the inventory has {nodes}"
        raise Refusal(Finding("knob", problem, f"add nodes to the inventory, or set it to {nodes} at most"))
    if nodes % stages:
        problem = f"{said} does not divide the {nodes} nodes of the inventory: all stages have the same number of nodes"
        raise Refusal(Finding("knob", problem, f"set it to {_one_of(_stages(nodes))}"))


def check_model(recipe: Recipe, knobs: Knobs, nodes: int, layout: Mapping[str, Any]) -> Iterator[Finding]:
    """What the model's own configuration (operations/node/model/facts.py) says against its ranks. What it does not say,
    or is not there to say, is left to the engine.
    """
    if knobs.topology != "cluster" or nodes % knobs.stages:
        return
    model, stages, shares = recipe.model.repo, knobs.stages, nodes // knobs.stages
    heads, layers = int(layout.get("heads") or 0), int(layout.get("layers") or 0)
    if heads % shares:
        # vLLM ends with it in each rank (0.32: ModelConfig.verify_with_parallel_config).
        fitting = [each for each in _stages(nodes) if not heads % (nodes // each) and (not layers or each <= layers)]
        problem = (
            f"{model} has {heads} attention heads, which {shares} nodes can't share (tensor-parallel size {shares})"
        )
        stages_too = f"set pipeline_parallel to {_one_of(fitting)}, or " if fitting else ""
        yield Finding(recipe.name, problem, f"{stages_too}take another number of nodes")
    if layers and stages > layers:
        problem = f"{model} has {layers} layers, too few for pipeline_parallel={stages}"
        yield Finding(recipe.name, problem, f"set pipeline_parallel to {layers} at most")
    stageless = ENGINES[recipe.engine].STAGELESS
    for name in layout.get("architectures", []) if stages > 1 and stageless else []:
        if re.search(stageless, name):
            problem = f"{model} is a {name}, which {recipe.engine} can't put into stages"
            yield Finding(recipe.name, problem, "set pipeline_parallel to 1, or choose another recipe")


def _stages(nodes: int) -> list[int]:
    """Numbers of stages that so many nodes can make."""
    return [stages for stages in range(1, nodes + 1) if nodes % stages == 0]


def _one_of(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers))
