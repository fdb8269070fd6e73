"""What `tandem bench` asks the nodes while it measures: orders come in as lines, answers go out as lines of JSON.

It holds the deploy lock on the head for as long as it runs: whoever deploys in that time is refused, and told why. It
ends with its standard input.
"""

from __future__ import annotations

import json
import os
from typing import Any

from gevent import select
from pyinfra import host
from pyinfra.api.exceptions import DeployError
from pyinfra.api.host import Host

from operations.node.look import bench_facts
from operations.node.monitoring import handed
from operations.plan.absence import told
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.engines import counters
from operations.plan.wanted import wanted
from operations.runner.remote import ask_or_none, hand_or_none
from operations.runner.run import this_run
from operations.runner.tether import can_tether
from operations.verbs.report import everywhere, refusals_told, the_head
from operations.wire.bench import BenchFacts, Declared, Order, Told

#: Seconds for a node to say how it is, and for all that is deployed there.
STATE_S, DEPLOYMENT_S = 30, 60
#: What else than knobs leads to a node.
_SSH = ("hostname", "port", "user", "key", "password", "config_file", "known_hosts_file", "strict_host_key_checking")


def _say(answer: Told) -> None:
    os.write(1, (json.dumps(answer) + "\n").encode())


def _declared(head: Host) -> Declared:
    """What the knobs want."""
    with refusals_told():
        declared = wanted(dict(head.data.dict()))
        if declared.knobs.models:
            problem = "`models` declares several, and a bench changes the topology of the one that it measures"
            raise Refusal(Finding("knob", problem, "bench with the knobs recipe and topology, and no `models`"))
    recipe, knobs = declared.first.pair
    return {
        "recipe": recipe.name,
        "served_name": recipe.served_name,
        "model": recipe.model.repo,
        "revision": recipe.model.revision or "",
        "engine": recipe.engine,
        "topologies": list(recipe.topologies),
        "topology": knobs.topology,
        "executor": knobs.executor,
        "pipeline_parallel": knobs.pipeline_parallel,
        "routing": knobs.routing,
        "model_store": knobs.model_store,
    }


def _connection(head: Host) -> dict[str, object] | None:
    """How this machine logs in to the head; None where that is not over ssh."""
    if not can_tether(head):
        return None
    data = {name: head.data.get(f"ssh_{name}") for name in _SSH}
    return {**data, "hostname": data["hostname"] or head.name, "password": bool(data["password"])}


def _lines() -> Any:
    """Lines of standard input, while the lock's beats go on."""
    rest = b""
    while True:
        select.select([0], [], [])
        said = os.read(0, 65536)
        if not said:
            return
        *lines, rest = (rest + said).split(b"\n")
        yield from lines


def _answer(order: Order) -> Told:
    deployment = bool(order.get("deployment"))
    try:
        if why := run.lock.lost():
            raise DeployError(why)
        hosts = run.answering
        if page := order.get("page"):
            return {"nodes": everywhere(run, hosts, lambda host: hand_or_none(host, page, handed.main), STATE_S)}
        if deployment:
            return {
                "nodes": everywhere(
                    run, hosts, lambda host: ask_or_none(host, bench_facts.main, deployment=True), DEPLOYMENT_S
                )
            }
        asked = [each for each in hosts if each.name in order["nodes"]]
        answers: dict[str, BenchFacts] = everywhere(
            run,
            asked,
            lambda host: ask_or_none(host, bench_facts.main, order["urls"].get(host.name, ""), counters()),
            STATE_S,
        )
        # Without one node's counters a share would be a wrong one.
        if gone := [told(each) for each in run.absent if each.name in order["nodes"]]:
            raise DeployError("; ".join(gone))
        return {"nodes": answers}
    except (DeployError, Refusal) as error:
        return {"problem": " ".join(str(error).split())}


run = this_run()
if run.speaks(host):
    head = the_head(run)[0]
    greeting: Told = {"declared": _declared(head), "ssh": _connection(head), "head": head.name}
    lost = run.lock.take(head, "bench").lost() if can_tether(head) else ""
    _say({**greeting, "problem": lost})
    if not lost:
        for line in _lines():
            _say(_answer(json.loads(line)))
    run.lock.release()
