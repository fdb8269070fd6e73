"""How long a bench takes, as the advice computes it."""

from __future__ import annotations

from bench.advise.asking import question
from bench.advise.load import Load
from bench.advise.setups import Setup
from bench.asked import Asked
from bench.budget import ENOUGH
from operations.plan.formats import load_recipe
from operations.plan.refusal import Refusal


def told(asked: Asked, recipe: str, nodes: int = 2) -> str:
    """A line: how long it takes, as the advice computes it."""
    names = list(asked.topologies)
    try:
        of, load = (
            load_recipe(recipe),
            Load(1, int(max(asked.profile.prompts, default=0)) or 1024, asked.profile.answer),
        )
        known = question(of, nodes, load)
        rounds = 0.0
        for name in names or ["solo"]:
            setup = _setup(name, nodes)
            seen = [known.outlook(setup, load.at(users)).whole for users in asked.profile.users]
            rounds += sum(value or 0.0 for value in seen) * asked.profile.rounds * asked.profile.turns
    except Refusal:
        return "how long it takes is not known before the first steps"
    repeats = asked.profile.repeats
    minutes = rounds * (1 if asked.time_s else repeats) / 60
    loads = len(names) * (of.load_minutes or 0)
    loading = f", and about {loads:,.0f} min to load the model {len(names)} times" if loads else ""
    if asked.time_s:
        return (
            f"at most {asked.time_s / 60:,.0f} min of measuring (a round takes about {minutes:,.1f}){loading}; it ends "
            f"sooner where each figure is known to {ENOUGH:.0%}"
        )
    took = f"about {max(minutes, 1):,.0f} min of measuring, {repeats} rounds"
    return f"{took}{loading}; computed, the first steps say better"


def _setup(name: str, nodes: int) -> Setup:
    topology, _, executor = name.partition("/")
    how = {"cluster": executor or "mp", "replicas": "balanced"}.get(topology, "")
    return Setup(topology, how, 0 if topology == "solo" else nodes)
