"""What is said at the very end, under pyinfra's table of all operations: there an owner reads first."""

from __future__ import annotations

import atexit
import sys

from operations import units
from operations.run import Run


def say_last(line: str) -> None:
    """One line when this process ends."""
    atexit.register(_say, line)


def sum_up(run: Run) -> None:
    """Where changes are only shown (`make plan`): at the end one line of what they come to. Called when all operations
    of a node are known; the first node that comes here does it.
    """
    if "--dry" in sys.argv:
        atexit.unregister(_say_sum)
        atexit.register(_say_sum, run)


def summed(changing: list[str], anew: list[str]) -> str:
    """`changing`: nodes; `anew`: engines that would start."""
    if not changing:
        return "nothing would change"
    engines = ", ".join(anew) or "none"
    return f"would change on: {', '.join(changing)}; engines that would start anew: {engines}"


def _say_sum(run: Run) -> None:
    state = run.state
    order, hosts = state.get_op_order(), [each for each in state.inventory if each in state.activated_hosts]
    # Whoever has failed on the way has not told all.
    if state.failed_hosts or any(len(state.ops[host]) < len(order) for host in hosts):
        return
    changing = []
    for host in hosts:
        found = [state.ops[host][name] for name in order]
        # What stands under a condition is done by another operation too, or because of one.
        if any(each.operation_meta._maybe_is_change and not each.global_arguments["_if"] for each in found):
            changing.append(host.name)
    _say(summed(changing, _anew(run)))


def _anew(run: Run) -> list[str]:
    """Engines that the plan does not find running as it wants them, as `unit on node (in what it differs)`."""
    found = []
    for each in run.plan.serving:
        state = run.look(run.node(each.node.name))
        for unit, service in each.engines.items():
            differs = ["serves alone"] if state["alone"] else units.differences(state, service)
            if differs:
                found.append(f"{unit} on {each.node.name} ({', '.join(differs)})")
    return found


def _say(line: str) -> None:
    # Behind what went to standard output, wherever both go to one place.
    sys.stdout.flush()
    print(line, file=sys.stderr, flush=True)
