"""What a deploy says before its first change, and at the very end, under pyinfra's table of all operations."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterator

from pyinfra import host, logger, state
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.host import Host

from operations.node.door import endpoint
from operations.plan import card
from operations.plan.decide.unit_state import differences
from operations.plan.services.proxy import shared_url
from operations.runner import looking, rollback
from operations.runner.remote import ask_or_none
from operations.runner.run import Run, step
from operations.wire.unit import Endpoint


def say_last(line: str) -> None:
    """One line when this process ends."""
    atexit.register(_say, line)


def sum_up(run: Run) -> None:
    """Where changes are only shown (`tandem plan`): at the end one line of what they come to. Called when all
    operations of a node are known; the first node that comes here does it.
    """
    if "--dry" in sys.argv:
        atexit.unregister(_say_sum)
        atexit.register(_say_sum, run)


def open_with(run: Run) -> None:
    """One line before the first change: what will be downloaded, and what is away meanwhile. The first node says it; of
    a plan that serves already nothing is said.
    """
    if "--dry" not in sys.argv and _anew(run):
        run.once("opening", lambda: _opened(run))


def _opened(run: Run) -> str:
    line = card.opening(_missing(run), _stopping(run))
    logger.info(line)
    return line


def _missing(run: Run) -> list[card.Missing]:
    """What the head has to fetch."""
    look, found = run.look(run.head), list[card.Missing]()
    models = {each.image.local: each.recipe for each in run.plan.models}
    for image in looking.images_at(run.plan, run.head.name):
        if not look["images"][image.local]["image"]:
            needs = models[image.local].needs.image_disk_gib if image.local in models else 0
            found.append(card.Missing(image.reference, needs))
    for recipe in models.values():
        for files in recipe.models:
            there = look["models"][files.key]
            if not there["present"] or there["problems"]:
                gib = files.weights_gib or (recipe.needs.model_disk_gib if files is recipe.model else 0)
                found.append(card.Missing(files.repo, gib))
    return found


def _stopping(run: Run) -> list[str]:
    """Models whose engines run now and start anew, with no other one that serves meanwhile."""
    found = []
    for model in run.plan.models:
        for each in (each for each in run.plan.serving if model.unit in each.services and not model.takes_turns):
            look = run.look(run.node(each.node.name))
            runs = look["services"]["units"].get(model.unit, {}).get("ActiveState") == "active"
            if runs and differences(look, each.container(model.unit)):
                found.append(model.recipe.served_name)
    return list(dict.fromkeys(found))


@step
def greet(run: Run) -> Iterator[PyinfraCommand]:
    """On the head: at the end of the run something says how to use it, of a plan that has not served before a card."""
    if state.is_executing and run.plan.of(host.name).node.is_head:
        is_new = not rollback.served_last(run, host)
        # Nobody's log is to have the key.
        told: Endpoint | None = ask_or_none(host, endpoint.main) if is_new and sys.stderr.isatty() else None
        atexit.register(_say_end, run, is_new, (told or {}).get("key", ""))
    host.noop("the end of the run says how")
    yield from ()


def _say_end(run: Run, is_new: bool, key: str) -> None:
    if run.state.failed_hosts:
        return
    if is_new:
        _say("\n".join(card.card(run.plan, key, shared_url(run.plan.knobs), _login(run.head))))
        return
    operations = [each for done in run.state.ops.values() for each in done.values()]
    is_changed = any(each.operation_meta.did_change() for each in operations if each.operation_meta.executed)
    _say(card.again(run.plan, is_changed, shared_url(run.plan.knobs)))


def _login(node: Host) -> str:
    """A node as ssh takes it, with what the inventory says of its connection."""
    user, port = node.data.get("ssh_user"), node.data.get("ssh_port")
    where = str(node.data.get("ssh_hostname") or node.name)
    return f"{f'-p {port} ' if port else ''}{f'{user}@' if user else ''}{where}"


def summed(changing: list[str], anew: list[str]) -> str:
    """`changing`: nodes; `anew`: engines that would start."""
    if not changing:
        return "nothing would change"
    engines = ", ".join(anew) or "none"
    return f"would change on: {', '.join(changing)}; engines that would start anew: {engines}"


def _say_sum(run: Run) -> None:
    state = run.state
    order, hosts = state.get_op_order(), [each for each in state.inventory if each in state.activated_hosts]
    # With `-y` pyinfra looks at no operation before its turn. A node that has failed has not told all.
    if (
        not state.should_check_for_changes()
        or state.failed_hosts
        or any(len(state.ops[host]) < len(order) for host in hosts)
    ):
        return
    changing = []
    for node in hosts:
        found = [state.ops[node][name] for name in order]
        # What stands under a condition is done by another operation too, or because of one.
        if any(each.operation_meta.will_change and not each.global_arguments["_if"] for each in found):
            changing.append(node.name)
    _say(summed(changing, _anew(run)))


def _anew(run: Run) -> list[str]:
    """Engines that the plan does not find running as it wants them, as `unit on node (in what it differs)`."""
    found = []
    for each in run.plan.serving:
        state = run.look(run.node(each.node.name))
        for unit in (model.unit for model in run.plan.on(each.node.name)):
            service = each.container(unit)
            differs = ["serves alone"] if state["alone"] else differences(state, service)
            if differs:
                found.append(f"{unit} on {each.node.name} ({', '.join(differs)})")
    return found


def _say(line: str) -> None:
    # Behind what went to standard output, wherever both go to one place.
    sys.stdout.flush()
    print(line, file=sys.stderr, flush=True)
