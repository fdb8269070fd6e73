"""Tandem's firewall: from outside nothing of Tandem's answers but the proxy."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand, QuoteString, StringCommand

from operations.node.unit import services
from operations.paths import FIREWALL, FIREWALL_ROUTES, FIREWALL_SCRIPT, FORMER_FIREWALL, SLICE, folder_of
from operations.plan.decide.unit_state import exists, is_up
from operations.plan.services import registry
from operations.runner import units
from operations.runner.remote import ask
from operations.runner.run import Run, step

#: Loads the rules in one transaction, whether others are in force or none; says in nft's own words why it can't. A unit
#: that is up is started as well, for what it has come to require since.
_RAISE = (
    f"systemctl enable --quiet {FIREWALL} && systemctl start {FIREWALL} && systemctl reload {FIREWALL}"
    " || { echo 'the firewall is not in force; nft says:' >&2;"
    f" journalctl --unit {FIREWALL} --lines 5 --output cat >&2; false; }}"
)

#: Of an upgrade from the unit's former name. What its routes were is what this one's replace.
_INHERIT = f"{{ mv -f /run/tandem/walls.routes {FIREWALL_ROUTES} 2>/dev/null || true; }}"
#: Its script means this one from here on: engines that wait for their turn ask it at a start, and its own stop would
#: take away the table and the routes that this one has just loaded.
_FORMER_SCRIPT = f"{folder_of(FORMER_FIREWALL)}/walls.sh"
_HAND_OVER = f"""[ "$1" = drop ] || exec {FIREWALL_SCRIPT} "$@" """.rstrip()


@step
def let_in_rails(run: Run) -> Iterator[PyinfraCommand]:
    """Rules of an older wiring drop what comes over a rail that is new: it is let in before it is proven. `apply` loads
    the plan's own, when no engine needs the older ones any more.
    """
    inside = run.look(host)["firewall"].get("inside", [])
    new = [rail for rail in run.plan.of(host.name).node.rails if inside and rail not in inside]
    if not new:
        host.noop("no rules, or they let the rails in")
        return
    elements = ", ".join(f'"{rail}"' for rail in new)
    yield StringCommand("nft add element inet tandem inside", QuoteString(f"{{ {elements} }}"))


@step
def apply(run: Run) -> Iterator[PyinfraCommand]:
    """The table as planned where an engine is, none where none is. What was changed by hand is put right."""
    wanted, found = run.plan.of(host.name).services.get(FIREWALL), run.look(host)
    if wanted is None:
        if exists(found, FIREWALL):
            yield from _remove(FIREWALL)
        else:
            host.noop("nothing to protect")
        return
    inherits = exists(found, FORMER_FIREWALL)
    if inherits:
        yield StringCommand(_INHERIT)
    changed = False
    for command in units.place_service(wanted, found["files"]):
        changed = True
        yield command
    problem = registry.service_of(FIREWALL).differs(found)
    # A deploy that was broken off may have loaded this one and not yet silenced the former one's stop.
    if not (changed or problem or inherits) and is_up(found, FIREWALL):
        host.noop("the firewall is in force")
        return
    if problem and not changed:
        host.log(problem)
    yield StringCommand(_RAISE)
    if inherits:
        yield StringCommand("printf '%s\\n' '#!/bin/sh'", QuoteString(_HAND_OVER), f">{_FORMER_SCRIPT}")


@step
def forget_former(run: Run) -> Iterator[PyinfraCommand]:
    """Remove the unit of the former name, when no engine is left that asks its script at a start."""
    if exists(run.look(host), FORMER_FIREWALL):
        yield from units.remove(FORMER_FIREWALL)
    else:
        host.noop("there is none")


@step
def take_down(_run: Run) -> Iterator[PyinfraCommand]:
    """Remove the table, its unit and the engine's control group. The engine has gone before."""
    found = ask(host, services.main, units=[FIREWALL, FORMER_FIREWALL])["units"]
    here = [unit for unit in (FIREWALL, FORMER_FIREWALL) if found.get(unit, {}).get("UnitFileState")]
    for unit in here:
        yield from _remove(unit)
    if not here:
        host.noop("no firewall of Tandem's is here")


def _remove(unit: str) -> Iterator[PyinfraCommand]:
    # Of a unit that was down already the table is gone too, unless somebody loaded it by hand.
    gone = "{ nft delete table inet tandem 2>/dev/null || true; }"
    yield from units.remove(unit, gone, f"systemctl stop {SLICE}")
