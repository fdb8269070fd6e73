"""The canary of a node that serves: it asks engines and the proxy, and kills what hangs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import cast

from operations.paths import CANARY, LITELLM, PROXY_ASKED, folder_of
from operations.plan.cluster.addresses import engine_url
from operations.plan.cluster.nodes import Node
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.files import File, node_program
from operations.plan.config.knobs import Knobs
from operations.plan.engines import ENGINES
from operations.plan.services.contract import Contract, Start
from operations.plan.services.litellm_service import listens
from operations.plan.services.service import Program, python_program
from operations.wire.specs import CanaryEngine, CanarySpec, EngineQuestion, Rail
from operations.wire.unit import Question

#: Times the deadline of an answer after which an engine without a sign of life hangs.
STRIKES = 3
#: Times the minutes that a load takes after which an engine that has never answered hangs.
START_PATIENCE = 2
#: Tokens a second that a prompt is read with at least: a dense model of 31B at the end of a long one.
SLOWEST_TOKENS_S = 500


def canary(knobs: Knobs, node: Node, models: Sequence[ServedModel]) -> Program:
    """Looks at the engines of which `node` has a rank, and at the proxy; it kills what hangs.

    In a cluster only the first rank's container is killed: it answers, and the others end with it.
    """
    rails: dict[str, Rail] = {
        device: {"address": f"{address}/{subnet.prefixlen}", "mtu": knobs.fabric_mtu}
        for device, address, subnet in zip(node.rails, node.rail_addresses, node.subnets, strict=True)
    }
    wanted: CanarySpec = {
        "engines": {each.unit: _engine(each, node) for each in models},
        "proxy": PROXY_ASKED,
        "litellm": {unit: f"unix:{listens(unit)}" for unit in LITELLM},
        "rails": rails,
    }
    if knobs.falls_back:
        alone = [replace(each, nodes=(each.on(node.name),)) for each in models]
        wanted["alone"] = {"engines": {each.unit: _engine(each, node) for each in alone}}
    speaking = File(f"{folder_of(CANARY)}/speaking.py", node_program("door/speaking.py"))
    return python_program(CANARY, wanted, ("engine", "inner", "node", "proxy", "rails", "watch"), [speaking])


def _engine(model: ServedModel, node: Node) -> CanaryEngine:
    recipe, knobs, ranks = model.recipe, model.knobs, model.ranks(node)
    engine, answering = ENGINES[recipe.engine], ranks[0]
    silence_s = max(STRIKES * knobs.canary_deadline, engine.step_tokens(recipe) / SLOWEST_TOKENS_S)
    question = engine.QUESTIONS.get(recipe.answers)
    # Without one it asks for a token.
    asked: EngineQuestion = {"question": cast("Question", asdict(question))} if question else {}
    return {
        "url": engine_url(knobs, answering),
        "model": recipe.served_name,
        "answers": recipe.answers,
        **asked,
        "acts": node.name == answering.name,
        "deadline_s": knobs.canary_deadline,
        "silence_s": silence_s,
        "mute_s": max(silence_s, engine.context_tokens(recipe) / SLOWEST_TOKENS_S),
        "start_s": recipe.load_minutes * 60 * START_PATIENCE,
        "signs": {"path": engine.SIGNS.path, "pattern": engine.SIGNS.pattern},
        "meeting": {"mark": model.meeting, "ranks": [rank.name for rank in ranks]} if len(ranks) > 1 else None,
        "peers": {rank.name: rank.fabric for rank in ranks if rank.name != node.name},
    }


SERVICE = Contract((CANARY,), lambda its: [canary(its.knobs, its.node, its.here)], Start.BEFORE_ENGINE)
