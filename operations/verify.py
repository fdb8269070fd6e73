"""Proof that what was deployed serves: tokens from every engine and through the proxy, all with deadlines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import gevent
from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.host import Host

from operations import looking, rollback, stopwatch
from operations.patience import fail
from operations.plan.engines import ENGINES
from operations.plan.environment import MOUNT
from operations.plan.places import ADDRESS, ENGINE, PROXY, PROXY_KEY
from operations.plan.plan import Plan
from operations.plan.proxy import shared_url
from operations.remote import ask
from operations.waiting import Wait, waits_to_start
from operations.watching import Watch, parts

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
#: Engines that this run has started, by the node that answers: whether they are proven. There is one run in a process.
_started: dict[str, bool] = {}


def was_started(plan: Plan, name: str) -> None:
    """The engine, or this rank of it, has been started: whatever it was, it has to prove itself."""
    _started[name if name in plan.endpoints else plan.head.node.name] = False


def has_proven_itself(name: str) -> bool:
    """Whether this run has started the engine that answers on this node, and found it to be the one that was meant."""
    return _started.get(name, False)


def await_engine(plan: Plan, where: Host) -> str:
    """Wait until the engine that answers on this node gives a token; else returns why not, from its log.

    One that this run has started, or that has never served, is judged too, and stopped when it is not the one that was
    meant. Any other is only waited for: it may be busy with a long prompt, and its first lines are not kept for ever.
    """
    url, patience_s = plan.endpoints[where.name], plan.recipe.load_minutes * 60
    proven = _started[where.name] if where.name in _started else rollback.has_served(plan, where)
    watch = None if proven else Watch(plan, where)
    problem = _await(plan, where, ENGINE, url, patience_s, watch=watch)
    if watch and not problem:
        problem = _proof(plan, where, watch)
        _started[where.name] = not problem
    return problem


def _proof(plan: Plan, where: Host, watch: Watch) -> str:
    """Why an engine that gives tokens is still not the one that was meant; empty: it is."""
    deadline = time.monotonic() + LOG_S
    while problem := watch.look() or "".join(f"its log never said: {pattern}" for pattern in watch.missing()[:1]):
        if not watch.missing() or time.monotonic() > deadline:
            watch.stop()
            return f"{where.name}: {problem}. The engine is stopped"
        gevent.sleep(1)
    proof, url, model = plan.recipe.proof, plan.endpoints[where.name], plan.recipe.served_name
    asked = {"url": url, "model": model, "reasoning": proof.reasoning, "text": proof.text}
    asked["answers"] = plan.recipe.answers
    deadline = time.monotonic() + WORDS_S
    while (answer := ask(where, "answer", **asked, deadline_s=ANSWER_S * 2))["problem"] and not answer["judged"]:
        if time.monotonic() > deadline:
            return f"{where.name}: {url} gives tokens, and no sentence in {WORDS_S} s: {answer['problem']}"
        gevent.sleep(1)
    if answer["problem"]:
        watch.stop()
        return f"{where.name}: {url} answers, but {answer['problem']}. The engine is stopped"
    return ""


def is_live(plan: Plan, where: Host) -> bool:
    """Whether the engine that runs on this node, be it the plan's or an older one, serves: at once, or when it can."""
    runs = looking.at(where, plan)["services"]["units"][ENGINE]
    url, model = runs.get("url") or plan.endpoints[where.name], runs.get("model") or plan.recipe.served_name
    answer = _probe(plan, where, ENGINE, url, model, "")
    return bool(answer["ok"] or answer["listens"])


def await_proxy(plan: Plan, where: Host) -> str:
    """Wait until the proxy of this node gives a token; else returns why not."""
    return _await(plan, where, PROXY, plan.urls[where.name], PROXY_S, key_file=PROXY_KEY)


def await_address(plan: Plan, where: Host) -> str:
    """Wait until a token comes from the virtual address, where there is one, whoever has it; else returns why not."""
    url = shared_url(plan.knobs)
    return _await(plan, where, ADDRESS, url, ADDRESS_S, key_file=PROXY_KEY) if url else ""


@looking.step
def ray_nodes(plan: Plan) -> Iterator[PyinfraCommand]:
    """In a Ray cluster: as many alive nodes as the plan has."""
    if _on_head(plan) and plan.knobs.topology == "cluster" and plan.knobs.executor == "ray":
        count = len(plan.serving)
        command = f"docker exec {ENGINE} python3 {MOUNT}/ray_nodes.py {count} 20"
        done, output = host.run_shell_command(command, _sudo=True)
        if not done:
            yield fail(f"Ray has not the {count} nodes of the plan: {' / '.join(output.stderr_lines[-3:])}")
            return
    host.noop("every node of the plan is in the Ray cluster")


@looking.step
def proxy(plan: Plan) -> Iterator[PyinfraCommand]:
    """A token through each proxy, under the name that clients use, and through the address that moves between them."""
    if state.is_executing and host.name in plan.urls and (problem := await_proxy(plan, host)):
        yield fail(rollback.after(plan, problem))
        return
    if _on_head(plan) and (problem := await_address(plan, host)):
        yield fail(rollback.after(plan, problem))
        return
    if _on_head(plan) and (away := stopwatch.switch_report()):
        host.log(away)
    if host.name in plan.urls:
        host.noop(f"{plan.urls[host.name]} serves {plan.recipe.served_name}")
    else:
        host.noop("no proxy here")


def _on_head(plan: Plan) -> bool:
    return bool(state.is_executing and plan.of(host.name).node.is_head)


def _await(
    plan: Plan, where: Host, unit: str, url: str, patience_s: float, key_file: str = "", watch: Watch | None = None
) -> str:
    wait, said = Wait(patience_s), time.monotonic()
    ranks = [each for each in parts(plan, where) if each.name != where.name] if unit == ENGINE else []
    while True:
        answer = _probe(plan, where, unit, url, plan.recipe.served_name, key_file)
        if watch and (problem := watch.look()):
            watch.stop()
            return f"{problem}. The engine is stopped"
        if answer["ok"]:
            return ""
        found = [(where, answer), *((rank, ask(rank, "unit", unit=unit)) for rank in ranks)]
        for each, part in found:
            if why := wait.see(each.name, part["state"]):
                others = [other for other, _ in found if other is not each]
                return _failure([each, *others], unit, url, f"{why} ({answer['problem']})")
        if why := wait.is_over():
            return _failure([each for each, _ in found], unit, url, f"{why} ({answer['problem']})")
        if time.monotonic() - said >= 10:
            said = time.monotonic()
            each, part = next((pair for pair in found if waits_to_start(pair[1]["state"])), found[0])
            last = next((line for line in reversed(part["log"]) if line.strip()), "")
            name = unit if each is where else f"{unit} on {each.name}"
            where.log(f"{name}: {wait.loading_s:.0f} s of {patience_s / 60:.0f} min at most; {last.strip()[-110:]}")
        gevent.sleep(1)


def _probe(plan: Plan, where: Host, unit: str, url: str, model: str, key_file: str) -> dict[str, Any]:
    """Asked as the plan has it: one that still runs and answers another kind of question is at least seen to listen."""
    question = ENGINES[plan.recipe.engine].QUESTIONS.get(plan.recipe.answers)
    asked = {"question": asdict(question)} if question else {}
    return ask(where, "probe", unit=unit, url=url, model=model, key_file=key_file, deadline_s=ANSWER_S, **asked)


def _failure(parts: Sequence[Host], unit: str, url: str, why: str) -> str:
    """`parts`: the nodes that it runs on, the one first that has failed. Ranks end with one another, so the log is that
    of the one that says why by itself.
    """
    logs = {each.name: ask(each, "unit", unit=unit, lines=25, why=True) for each in parts}
    name = next((name for name, log in logs.items() if log["told"]), parts[0].name)
    tail = "\n".join(f"    {line}" for line in logs[name]["log"])
    of = "its log" if name == parts[0].name else f"the log of {name}"
    return f"{parts[0].name}: {url} does not serve: {why}. From {of} (journalctl -u {unit}):\n{tail}"
