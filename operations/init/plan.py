"""From the answers to knobs: the topology that advice would choose, and what the plan costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from bench.advise import load as loads
from bench.advise.asking import question
from bench.advise.choose import choose
from operations.init.answers import REACH, Answers, fits
from operations.init.folder import Owned
from operations.init.seen import Seen
from operations.plan.config.knobs import Topology
from operations.plan.config.refusal import Refusal
from operations.plan.config.spark import IDLE_GIB
from operations.plan.cost import GB, RATES, Cost, cost, lasting
from operations.plan.recipes.recipe import Recipe


def topology(recipe: Recipe, answers: Answers, nodes: int) -> tuple[Topology, int]:
    """The best topology over all nodes for that many people, and the nodes of each replica; `check_fits` has let it
    through. Where nothing is known of the recipe, its own first one.
    """
    able = fits(recipe, nodes)
    if nodes > 1 and set(able) - {"solo"}:
        able = [each for each in able if each != "solo"]
    try:
        load = loads.read(f"{answers.at_once} users {answers.pick.load if answers.pick else 'chat'}")
        asked = question(recipe, nodes, load)
        setups = [each for each in asked.setups() if each.topology in able and each.nodes in (nodes, nodes - nodes % 2)]
        choice = choose(asked, [asked.outlook(each, load) for each in setups], load)
    except Refusal:
        choice = None
    if choice is None:
        return able[0], 1
    return cast("Topology", choice.setup.topology), choice.setup.group


def knobs(before: Owned, recipe: Recipe, answers: Answers, nodes: int) -> dict[str, tuple[Any, str]]:
    """Value and comment of each knob that the answers set; what was not asked for is left as the folder has it."""
    what = answers.pick.title if answers.pick else "the model that you named"
    found: dict[str, tuple[Any, str]] = {"recipe": (answers.recipe, f"What for: {what}. {recipe.description}.")}
    same = answers.recipe == before.knobs.get("recipe") and nodes == len(before.logins)
    if answers.people is not None or not same or "topology" not in before.knobs:
        chosen, group = topology(recipe, answers, nodes)
        found["topology"] = (chosen, _LAYOUT[chosen])
        if group > 1 or "nodes_per_replica" in before.knobs:
            found["nodes_per_replica"] = (group, "So many nodes are one engine of `replicas`.")
    if answers.reach:
        bind, meaning = REACH[answers.reach]
        found["proxy_bind"] = (bind, f"Who may reach it: {meaning}.")
    if before.is_new:
        found["monitoring"] = (
            "metrics",
            "The page /tandem/, behind the same address and key: how the nodes are.",
        )
    return found


_LAYOUT = {
    "solo": "One engine on the first node.",
    "cluster": "One engine over all nodes: the fastest answer for few at once.",
    "replicas": "An engine on each node, or group of nodes: the most answers, and one node may fail.",
}


def lines(recipe: Recipe, wanted: Mapping[str, Any], nodes: int) -> list[str]:
    """What it costs, in lines for the owner. `wanted`: the folder's knobs as they will be."""
    chosen, group = wanted["topology"], wanted.get("nodes_per_replica", 1)
    low, high = IDLE_GIB
    # A replica of several nodes is a cluster.
    costs = cost(recipe, "cluster" if group > 1 else chosen, group if group > 1 else nodes)
    told = [
        f"model      {recipe.model.repo}, {_layout(chosen, nodes)}",
        f"download   {_download(costs)}, once, by the first node{'; the others have it over the cable' * (nodes > 1)}",
        f"takes      {_minutes(costs)}",
        f"disk       {costs.disk_gb:.0f} GB on each node",
        f"memory     {costs.memory_gib:.0f} GiB free where it serves; an idle Spark has {low:g} to {high:g}",
    ]
    if recipe.gated:
        told.append("token      the Hub wants one for this model: the knob hub_token_file")
    elif recipe.gated is None:
        told.append("token      not known whether the Hub wants one: tandem apply says so (docs/gated.md in the clone)")
    return told


def _layout(chosen: Topology, nodes: int) -> str:
    if chosen == "cluster":
        return f"one engine over {nodes} nodes (cluster)"
    return "one engine on the first node (solo)" if chosen == "solo" else f"engines on {nodes} nodes (replicas)"


def _download(costs: Cost) -> str:
    if not costs.model_gb:
        return "the recipe does not say how much"
    return f"{costs.model_gb:.0f} GB of model, at most {costs.image_gb:.0f} GB of image"


def _minutes(costs: Cost) -> str:
    load = f"then up to {lasting(costs.load_minutes)} for the first start"
    if not costs.model_gb:
        return load.removeprefix("then ")
    rates = ", ".join(f"{lasting(costs.download_minutes(rate))} at {rate:,} Mbit/s" for rate in RATES)
    return f"{rates}; {load}"


def short_of_disk(recipe: Recipe, nodes: Iterable[tuple[str, Seen | None]]) -> list[str]:
    """A line for each node whose disk has less than the plan takes: what lies there already is not counted."""
    need = cost(recipe, "solo", 1).disk_gb
    return [
        f"{name} has {seen.disk_gib * GB:.0f} GB of disk free: enough only where image and model are there already"
        for name, seen in nodes
        if seen and seen.disk_gib * GB < need
    ]
