"""Waiting for a real answer of an engine, or through a proxy, and judging it: all with deadlines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import cast

import gevent
from pyinfra import logger
from pyinfra.api.host import Host

from operations.node.engine import adapters as node_adapters
from operations.node.engine import answer_quality, probe
from operations.node.unit import brief
from operations.paths import ADDRESS, PROXY, PROXY_KEY
from operations.plan.cluster.served_model import ServedModel
from operations.plan.decide.unit_state import unit_state
from operations.plan.engines import ENGINES, starts
from operations.plan.recipes.recipe import Recipe
from operations.plan.services.proxy import shared_url
from operations.runner import rollback
from operations.runner.remote import ask
from operations.runner.run import Run
from operations.runner.waiting import Wait, waits_to_start
from operations.runner.watching import Watch, parts
from operations.wire.unit import Probed, Question

#: Seconds that one answer may take when the engine is warm.
ANSWER_S = 60
#: Seconds in which an engine's words must have come, however often they are asked for: others may be before us.
WORDS_S = 300
#: Seconds for LiteLLM to come up; it takes 7 to 9 on two cores.
PROXY_S = 120
#: Seconds for keepalived to have asked its proxy and to take the address, and its container's start.
ADDRESS_S = 60
#: Seconds in which what an engine has logged arrives in the journal.
LOG_S = 5


def await_engine(run: Run, model: ServedModel, where: Host) -> str:
    """Wait until the engine that answers on this node gives a token; else returns why not, from its log.

    One that this run has started, or that has never served, is judged too, and stopped when it is not the one that was
    meant. Any other is only waited for: it may be busy with a long prompt, and its first lines are not kept for ever.
    """
    url, patience_s = model.endpoints[where.name], _patience_s(run, model, where)
    if run.started.has(model, where.name):
        proven = run.started.is_proven(model, where.name)
    else:
        proven = rollback.has_served(run, model, where)
    watch = None if proven else Watch(model, where)
    problem = _await(Probe(model.recipe, model.unit, url), where, patience_s, parts(model, where), watch)
    if watch and not problem:
        problem = _proof(model, where, watch)
        run.started.judged(model, where.name, is_meant=not problem)
    return problem


def _patience_s(run: Run, model: ServedModel, where: Host) -> float:
    """Seconds for a start: by the last ones of the same plan on its nodes, as they were seen when this run looked."""
    ranks = model.ranks(model.on(where.name))
    specs = [run.plan.of(each.name).services[model.unit].spec for each in ranks]
    longest = [run.looks.starts.get(each.name, {}) for each in ranks]
    return starts.patience_s(model.recipe.load_minutes, specs, longest)


def _proof(model: ServedModel, where: Host, watch: Watch) -> str:
    """Why an engine that gives tokens is still not the one that was meant; empty: it is."""
    deadline = time.monotonic() + LOG_S
    while problem := watch.look() or watch.missing():
        if not watch.missing() or time.monotonic() > deadline:
            watch.stop()
            return f"{where.name}: {problem}. The engine is stopped"
        gevent.sleep(1)
    proof, url, recipe = model.recipe.proof, model.endpoints[where.name], model.recipe
    asked = (url, recipe.served_name, proof.reasoning, proof.text, ANSWER_S * 2, recipe.answers)
    deadline = time.monotonic() + WORDS_S
    while (answer := ask(where, answer_quality.main, *asked))["problem"] and not answer["judged"]:
        if time.monotonic() > deadline:
            return f"{where.name}: {url} gives tokens, and no sentence in {WORDS_S} s: {answer['problem']}"
        gevent.sleep(1)
    if answer["problem"]:
        watch.stop()
        return f"{where.name}: {url} answers, but {answer['problem']}. The engine is stopped"
    _compare_adapters(model, where)
    return ""


def _compare_adapters(model: ServedModel, where: Host) -> None:
    """Say which adapters answer as the model does without them: a remark, because an adapter may be about other things
    than what is asked here.
    """
    recipe = model.recipe
    names = ENGINES[recipe.engine].adapters(recipe)
    if not names or recipe.answers != "chat":
        return
    url = model.endpoints[where.name]
    told = ask(where, node_adapters.main, url=url, model=recipe.served_name, adapters=names, deadline_s=ANSWER_S)
    if told["problem"]:
        logger.warning(f"{where.name}: whether adapters change anything could not be asked: {told['problem']}")
    for name in told["alike"]:
        means = "it has loaded, and seems to change nothing (vLLM #41754)"
        remedy = "compare it with a prompt of your own; if it is so, merge it into the weights"
        logger.warning(f"{where.name}: the adapter {name} answers byte for byte as the model does: {means}; {remedy}")


def is_live(run: Run, model: ServedModel, where: Host) -> bool:
    """Whether the engine of a model that runs on this node, be it the plan's or an older one, serves: at once, or when
    it can.
    """
    runs = unit_state(run.look(where), model.unit)
    url, name = runs.get("url") or model.endpoints[where.name], runs.get("model") or model.recipe.served_name
    answer = _probe(replace(Probe(model.recipe, model.unit, url), model=name), where)
    return bool(answer["ok"] or answer["listens"])


def await_proxy(run: Run, where: Host) -> str:
    """Wait until the proxy of this node gives a token of each model; else returns why not."""
    return _await_each(run, where, PROXY, run.plan.urls[where.name], PROXY_S)


def await_address(run: Run, where: Host) -> str:
    """The same of the virtual address, where there is one, whoever has it."""
    url = shared_url(run.plan.knobs)
    return _await_each(run, where, ADDRESS, url, ADDRESS_S) if url else ""


def _await_each(run: Run, where: Host, unit: str, url: str, patience_s: float) -> str:
    asked = (Probe(each.recipe, unit, url, PROXY_KEY) for each in run.plan.models)
    return next(filter(None, (_await(each, where, patience_s) for each in asked)), "")


@dataclass(frozen=True)
class Probe:
    """What is asked for a token: a unit at its URL, under the name of a model (the recipe's)."""

    recipe: Recipe
    unit: str
    url: str
    key_file: str = ""
    model: str = ""


def _await(asked: Probe, where: Host, patience_s: float, parts: Sequence[Host] = (), watch: Watch | None = None) -> str:
    """`parts`: the nodes that it runs on."""
    wait, said, unit, url = Wait(patience_s), time.monotonic(), asked.unit, asked.url
    ranks = [each for each in parts if each.name != where.name]
    while True:
        answer = _probe(asked, where)
        if watch and (problem := watch.look()):
            watch.stop()
            return f"{problem}. The engine is stopped"
        if answer["ok"]:
            return ""
        found = [(where, answer), *((rank, ask(rank, brief.main, unit=unit)) for rank in ranks)]
        for each, part in found:
            if why := wait.see(each.name, part["state"]):
                others = [other for other, _ in found if other is not each]
                return _failure([each, *others], unit, url, f"{why} ({answer['problem']})", wait.waited_s)
        if why := wait.is_over():
            return _failure([each for each, _ in found], unit, url, f"{why} ({answer['problem']})", wait.waited_s)
        if time.monotonic() - said >= 10:
            said = time.monotonic()
            each, part = next((pair for pair in found if waits_to_start(pair[1]["state"])), found[0])
            last = next((line for line in reversed(part["log"]) if line.strip()), "")
            name = unit if each is where else f"{unit} on {each.name}"
            where.log(f"{name}: {wait.loading_s:.0f} s of {patience_s / 60:.0f} min at most; {last.strip()[:110]}")
        gevent.sleep(1)


def _probe(asked: Probe, where: Host) -> Probed:
    """Probe as the plan has it: one that still runs and answers another kind of question is at least seen to listen."""
    recipe, question = asked.recipe, ENGINES[asked.recipe.engine].QUESTIONS.get(asked.recipe.answers)
    wanted = cast("Question", asdict(question)) if question else None
    model = asked.model or recipe.served_name
    return ask(where, probe.main, asked.unit, asked.url, model, asked.key_file, ANSWER_S, wanted)


def _failure(parts: Sequence[Host], unit: str, url: str, why: str, since_s: float) -> str:
    """`parts`: the nodes that it runs on, the one first that has failed. Ranks end with one another, so the log is that
    of the one that says why by itself: in this wait of so many seconds, or, where none does, before it.
    """
    for limit in ({"since_s": since_s}, {}):
        logs = {each.name: ask(each, brief.main, unit=unit, lines=25, why=True, **limit) for each in parts}
        if name := next((name for name, log in logs.items() if log["told"]), ""):
            break
    name = name or parts[0].name
    tail = "\n".join(f"    {line}" for line in logs[name]["log"])
    of = "its log" if name == parts[0].name else f"the log of {name}"
    return f"{parts[0].name}: {url} does not serve: {why}. From {of} (sudo journalctl -u {unit}):\n{tail}"
