"""How long a bench takes, as the advice computes it."""

from __future__ import annotations

from bench.advise.asking import question
from bench.advise.load import Load
from bench.advise.setups import Setup
from bench.advise.words import seconds
from bench.budget import ENOUGH
from bench.request import BenchRequest
from operations.plan.config.refusal import Refusal
from operations.plan.recipes.formats import load_recipe


def told(asked: BenchRequest, recipe: str, declared: str = "solo", nodes: int = 2) -> str:
    """A line. `declared`: the topology that is measured where none is named."""
    profile = asked.profile
    try:
        of = load_recipe(recipe)
        load = Load(1, int(max(profile.prompts, default=0)) or 1024, profile.answer)
        known = question(of, nodes, load)
        a_round = 0.0
        for name in asked.topologies or (declared,):
            setup = _setup(name, nodes)
            wanted = [(setup, users) for users in profile.users if "proxy" in asked.targets]
            # Each engine is asked directly as well: a cluster's is the same, replicas' are two of solo's.
            alone = setup if setup.topology == "cluster" else Setup("solo")
            wanted += [(alone, users) for users in profile.direct if "engines" in asked.targets] * setup.engines
            a_round += sum(known.outlook(each, load.at(users)).whole or 0.0 for each, users in wanted)
    except Refusal:
        return "how long it takes is not known before the first steps"
    a_round *= profile.rounds * profile.turns
    loads = len(asked.topologies) * (of.load_minutes or 0)
    loading = f", and about {loads:,.0f} min to load the model {len(asked.topologies)} times" if loads else ""
    if asked.time_s:
        most = f"at most {seconds(asked.time_s)} of measuring (a round takes about {seconds(a_round)})"
        return f"{most}{loading}; it ends sooner where each figure is known to {ENOUGH:.0%}"
    took = f"about {seconds(a_round * profile.repeats)} of measuring, {profile.repeats} rounds"
    return f"{took}{loading}; computed, the first steps say better"


def _setup(name: str, nodes: int) -> Setup:
    topology, _, executor = name.partition("/")
    how = {"cluster": executor or "mp", "replicas": "balanced"}.get(topology, "")
    return Setup(topology, how, 0 if topology == "solo" else nodes)
