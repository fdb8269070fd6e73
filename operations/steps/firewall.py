"""Tandem's firewall: from outside nothing of Tandem's answers but the proxy."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand, QuoteString, StringCommand

from operations.node.unit import services
from operations.paths import FIREWALL, FIREWALL_ROUTES, SLICE, folder_of
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

#: The unit's former name. Its stop would take away the table and the routes, which are the next one's by then: the
#: unit loses its script here, and goes with what no service of this version has (upkeep.watch).
FORMER = "tandem-walls"
_TAKE_OVER = (
    f"rm -f {folder_of(FORMER)}/walls.sh && {{ mv -f /run/tandem/walls.routes {FIREWALL_ROUTES} 2>/dev/null || true; }}"
)


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
            yield from _remove()
        else:
            host.noop("nothing to protect")
        return
    if exists(found, FORMER):
        yield StringCommand(_TAKE_OVER)
    changed = False
    for command in units.place_service(wanted, found["files"]):
        changed = True
        yield command
    problem = registry.service_of(FIREWALL).differs(found)
    if not changed and not problem and is_up(found, FIREWALL):
        host.noop("the firewall is in force")
        return
    if problem and not changed:
        host.log(problem)
    yield StringCommand(_RAISE)


@step
def take_down(_run: Run) -> Iterator[PyinfraCommand]:
    """Remove the table, its unit and the engine's control group. The engine has gone before."""
    if ask(host, services.main, units=[FIREWALL])["units"][FIREWALL].get("UnitFileState"):
        yield from _remove()
    else:
        host.noop("no firewall of Tandem's is here")


def _remove() -> Iterator[PyinfraCommand]:
    # Of a unit that was down already the table is gone too, unless somebody loaded it by hand.
    gone = "{ nft delete table inet tandem 2>/dev/null || true; }"
    yield from units.remove(FIREWALL, gone, f"systemctl stop {SLICE}")
