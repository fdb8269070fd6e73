"""The certificate of each node's proxy."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from functools import partial

from pyinfra import host
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.node.door import certificate
from operations.paths import PROXY_USER
from operations.plan.services import tls
from operations.runner.patience import python_step
from operations.runner.remote import ask, hand
from operations.runner.run import Run, step


@step
def certificates(run: Run) -> Iterator[PyinfraCommand]:
    """One that is valid, on each node with a proxy: the owner's, or one that the head's authority has signed."""
    if run.plan.knobs.tls == "off" or host.name not in run.plan.urls:
        host.noop("no TLS here")
        return
    here = run.look(host)["certificate"]
    if run.plan.knobs.tls_files:
        if here["hash"] != hashlib.sha256(tls.pem(run.plan.knobs).encode()).hexdigest():
            yield python_step(partial(_hand_over, run))
        return
    head = run.node(run.plan.head.node.name)
    wanted = tls.names(run.plan.knobs, run.plan.of(host.name).node)
    if why := tls.is_due(here, wanted, run.look(head)["certificate"], time.time()):
        host.log(f"the proxy here gets a certificate: {why}")
        yield python_step(partial(_sign, head, wanted))
    host.noop("it is valid")


def _hand_over(run: Run, _state: State, where: Host) -> bool:
    """The owner's, on standard input, which nothing logs."""
    return bool(hand(where, tls.pem(run.plan.knobs), certificate.main, whole=True, user=PROXY_USER)["hash"])


def _sign(head: Host, names: list[str], _state: State, where: Host) -> bool:
    asks = ask(where, certificate.main, request=True, user=PROXY_USER)["asks"]
    chain = ask(head, certificate.main, sign=asks, names=names)["chain"]
    return bool(ask(where, certificate.main, take=chain, user=PROXY_USER)["hash"])
