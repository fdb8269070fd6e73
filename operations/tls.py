"""The certificate of each node's proxy."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from functools import partial

from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations import looking
from operations.paths import PROXY_USER
from operations.patience import quietly
from operations.plan import tls
from operations.plan.plan import Plan
from operations.remote import ask, hand


@looking.step
def certificates(plan: Plan) -> Iterator[PyinfraCommand]:
    """One that is valid, on each node with a proxy: the owner's, or one that the head's authority has signed."""
    if plan.knobs.tls == "off" or host.name not in plan.urls:
        host.noop("no TLS here")
        return
    here = looking.at(host, plan)["certificate"]
    if plan.knobs.tls_files:
        if here["hash"] != hashlib.sha256(tls.pem(plan.knobs).encode()).hexdigest():
            yield quietly(partial(_hand_over, plan))
        return
    head = state.inventory.get_host(plan.head.node.name)
    wanted = tls.names(plan.knobs, plan.of(host.name).node)
    if why := tls.is_due(here, wanted, looking.at(head, plan)["certificate"]["own"], time.time()):
        host.log(f"the proxy here gets a certificate: {why}")
        yield quietly(partial(_sign, head, wanted))
    host.noop("it is valid")


def _hand_over(plan: Plan, _state: State, where: Host) -> bool:
    """The owner's, on standard input, which nothing logs."""
    return bool(hand(where, tls.pem(plan.knobs), "door.certificate", whole=True, user=PROXY_USER)["hash"])


def _sign(head: Host, names: list[str], _state: State, where: Host) -> bool:
    asks = ask(where, "door.certificate", request=True, user=PROXY_USER)["asks"]
    chain = ask(head, "door.certificate", sign=asks, names=names)["chain"]
    return bool(ask(where, "door.certificate", take=chain, user=PROXY_USER)["hash"])
