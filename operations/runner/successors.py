"""Steps between two LiteLLM of a node, and between two HAProxy: what serves goes on until its successor answers."""

from __future__ import annotations

from collections.abc import Sequence

from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.node.door import drained
from operations.paths import ADMIN, PROXY
from operations.plan.decide.proxy import config_hash
from operations.plan.services.litellm_service import haproxy_name, pulse
from operations.plan.services.proxy_service import ANSWER_S
from operations.plan.services.service import Service
from operations.runner import rollback
from operations.runner.patience import beat
from operations.runner.remote import ask, ask_or_none
from operations.runner.run import Run

#: Seconds for the other LiteLLM to come up, before one is renewed: 7 to 15, on a loaded machine several times that.
START_S = 120


def answers(run: Run, new: Sequence[Service], _state: State, where: Host) -> bool:
    """Wait until one of these LiteLLM takes requests. Raises RuntimeError where none does: whatever serves, goes on."""
    *others, last = new
    if any(_is_taken(each, where, 0) for each in others) or _is_taken(last, where, START_S):
        return True
    raise RuntimeError(_not_there(run, [each.unit for each in new], f"{PROXY} and what is behind it"))


def _not_there(run: Run, new: Sequence[str], old: str) -> str:
    """What to say where a proxy would have nobody left; `old`: what goes on in its place."""
    logs = " ".join(f"-u {unit}" for unit in new)
    return rollback.after(
        run,
        f"{' and '.join(new)} took no requests for {START_S} s (sudo journalctl {logs}); {old} were not touched and go "
        "on: mend it, and run the deploy again",
    )


def has_taken_up(service: Service, where: Host) -> bool:
    """Wait until a LiteLLM has the engines of its file; False: it has not, and is to be renewed."""
    if _is_taken(service, where, START_S):
        return True
    where.log(f"{service.unit} has not taken up its engines; it is renewed")
    return False


def _is_taken(service: Service, where: Host, patience_s: float) -> bool:
    here = f"unix:{pulse(service.unit)}"
    said = ask_or_none(where, drained.main, pulse=here, wanted=config_hash(service), patience_s=patience_s)
    if said is None:
        raise RuntimeError(f"{where.name} does not answer any more")
    return bool(said["taken"])


def drain(
    run: Run, where_they_are: dict[str, list[str]], unit: str, others: Sequence[str], _state: State, where: Host
) -> bool:
    """Let what is under way in a LiteLLM end, while another one takes what comes. Raises RuntimeError where none of the
    `others` does: it goes on.
    """
    with beat(where, f"{unit} is renewed when its requests have ended"):
        said = ask(
            where,
            drained.main,
            admin=ADMIN,
            server=haproxy_name(unit),
            # It runs as it was started.
            pulse=where_they_are[unit][-1],
            others=[url for each in others for url in where_they_are[each]],
            patience_s=START_S,
            drain_s=ANSWER_S,
        )
    if said.get("alone"):
        raise RuntimeError(_not_there(run, others, f"{PROXY} and {unit}"))
    if left := said["left"]:
        where.log(f"{unit}: {left} requests have not ended in {ANSWER_S} s and are broken off")
    return True
