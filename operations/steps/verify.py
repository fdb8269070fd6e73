"""Proof that what was deployed serves: every rank is there, a token comes through the proxy; then it is remembered."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand

from operations.node.unit import served as node_served
from operations.plan.cluster.environment import MOUNT
from operations.plan.cluster.served_model import joins_by_ray
from operations.runner import closing, proving, readiness, rollback
from operations.runner.patience import fail, python_step
from operations.runner.remote import ask
from operations.runner.run import Run, step


@step
def ray_nodes(run: Run) -> Iterator[PyinfraCommand]:
    """Check on the leader of each Ray cluster that Ray has as many alive nodes as the plan. Fails the node, with Ray's
    last three lines, where they have not come within 20 s.
    """
    for model in run.plan.on(host.name) if state.is_executing else ():
        if not joins_by_ray(model) or model.leader.name != host.name:
            continue
        count = len(model.nodes)
        command = f"docker exec {model.unit} python3 {MOUNT}/ray_nodes.py {count} 20"
        done, output = host.run_shell_command(command, _sudo=True)
        if not done:
            yield fail(f"Ray has not the {count} nodes of the plan: {' / '.join(output.stderr_lines[-3:])}")
            return
    host.noop("every node of the plan is in the Ray cluster")


@step
def proxy(run: Run) -> Iterator[PyinfraCommand]:
    """A token through each proxy, under the name that clients use, and through the address that moves between them."""
    if state.is_executing and host.name in run.plan.urls and (problem := readiness.await_proxy(run, host)):
        yield fail(rollback.after(run, problem))
        return
    if _on_head(run) and (problem := readiness.await_address(run, host)):
        yield fail(rollback.after(run, problem))
        return
    if _on_head(run) and (away := run.clock.switch_report()):
        host.log(away)
        # Pyinfra's table of all operations comes behind it.
        closing.say_last(f"the service was {away}")
    if host.name in run.plan.urls:
        names = ", ".join(each.recipe.served_name for each in run.plan.models)
        host.noop(f"{run.plan.urls[host.name]} serves {names}")
    else:
        host.noop("no proxy here")


@step
def remember(run: Run) -> Iterator[PyinfraCommand]:
    """On every node: this plan has served. What had served before it is what answers are compared with."""
    served = rollback.record(run)
    before = run.back_to["serves"] if run.back_to and "serves" in run.back_to else {}
    for role, of in served["serves"].items():
        kept = before[role]["content"] if role in before else ""
        if run.plan.of(host.name).node.is_head and kept not in ("", of["content"]):
            host.log(f"the {role}'s image was obtained again, and is not by content the one that served")
    if rollback.served_last(run, host):
        host.noop("is the one that served last")
        return
    if _on_head(run) and run.plan.knobs.prove == "new":
        run.past = ask(host, node_served.main)["plans"]
    yield python_step(lambda _, host: bool(ask(host, node_served.main, keep=served)))


@step
def answers(run: Run) -> Iterator[PyinfraCommand]:
    """On the head: models that have not been asked before as they are answer questions. It may take minutes: the plan
    is remembered by then.
    """
    if _on_head(run) and run.past is not None and (told := proving.prove_new(run, host, run.past)):
        closing.say_last(told)
    host.noop("has been asked, or is to be asked nothing")
    yield from ()


@step
def keep_answers(run: Run) -> Iterator[PyinfraCommand]:
    """On every node: what was answered goes with the plan."""
    if not run.answers:
        host.noop("nothing was answered anew")
        return
    plan = rollback.record(run)["id"]
    yield python_step(lambda _, host: ask(host, node_served.keep_answers, plan, run.answers) is not None)


def _on_head(run: Run) -> bool:
    return bool(state.is_executing and run.plan.of(host.name).node.is_head)
