"""The walls: from outside nothing of Tandem's answers but the proxy."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand, QuoteString, StringCommand

from operations.node.unit import services
from operations.paths import SLICE, WALLS
from operations.plan.decide.unit_state import exists, is_up
from operations.plan.services import registry
from operations.runner import units
from operations.runner.remote import ask
from operations.runner.run import Run, step

#: Loads the rules in one transaction, whether others are in force or none; says in nft's own words why it can't. A unit
#: that is up is started as well, for what it has come to require since.
_RAISE = (
    f"systemctl enable --quiet {WALLS}.service && systemctl start {WALLS}.service && systemctl reload {WALLS}.service"
    " || { echo 'the walls do not stand; nft says:' >&2;"
    f" journalctl --unit {WALLS} --lines 5 --output cat >&2; false; }}"
)


@step
def admit(run: Run) -> Iterator[PyinfraCommand]:
    """Rules of an older wiring drop what comes over a rail that is new: it is let in before it is proven. `stand` puts
    up the plan's own, when no engine needs the older ones any more.
    """
    inside = run.look(host)["walls"].get("inside", [])
    new = [rail for rail in run.plan.of(host.name).node.rails if inside and rail not in inside]
    if not new:
        host.noop("no rules, or they let the rails in")
        return
    elements = ", ".join(f'"{rail}"' for rail in new)
    yield StringCommand("nft add element inet tandem inside", QuoteString(f"{{ {elements} }}"))


@step
def stand(run: Run) -> Iterator[PyinfraCommand]:
    """The table as planned where an engine is, none where none is. What was changed by hand is put right."""
    wanted, found = run.plan.of(host.name).services.get(WALLS), run.look(host)
    if wanted is None:
        if exists(found, WALLS):
            yield from _remove()
        else:
            host.noop("nothing to wall in")
        return
    changed = False
    for command in units.place_service(wanted, found["files"]):
        changed = True
        yield command
    problem = registry.service_of(WALLS).differs(found)
    if not changed and not problem and is_up(found, WALLS):
        host.noop("the walls stand")
        return
    if problem and not changed:
        host.log(problem)
    yield StringCommand(_RAISE)


@step
def take_down(_run: Run) -> Iterator[PyinfraCommand]:
    """Remove the table, its unit and the engine's control group. The engine has gone before."""
    if ask(host, services.main, units=[WALLS])["units"][WALLS].get("UnitFileState"):
        yield from _remove()
    else:
        host.noop("no walls are here")


def _remove() -> Iterator[PyinfraCommand]:
    # Of a unit that was down already the table is gone too, unless somebody loaded it by hand.
    gone = "{ nft delete table inet tandem 2>/dev/null || true; }"
    yield from units.remove(WALLS, gone, f"systemctl stop {SLICE}")
