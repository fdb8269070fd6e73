"""The proxy on the head: one address for clients in every topology."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand

from operations import looking, secrecy, units
from operations.patience import quietly
from operations.plan.places import PROXY, PROXY_KEY, PROXY_USER
from operations.plan.plan import Plan
from operations.remote import ask


@looking.step
def files(plan: Plan) -> Iterator[PyinfraCommand]:
    """Unit and configuration, and on the first deploy the key, which is made on the head."""
    service = plan.of(host.name).proxy
    if service is None:
        host.noop("the proxy is on the head")
        return
    yield from units.place_service(service, looking.at(host, plan)["files"])
    found = looking.at(host, plan)
    if not found["secrets"][PROXY_KEY]:
        if units.is_running(found, PROXY):
            # It has the old one, which nobody can read any more.
            host.log("the proxy's key is gone: there will be another one, `make endpoint` prints it")
            yield units.stop(PROXY)
        yield quietly(lambda _, host: bool(ask(host, "secrets", path=PROXY_KEY, make=True, user=PROXY_USER)["hash"]))


@looking.step
def run(plan: Plan) -> Iterator[PyinfraCommand]:
    """Run what is planned, and nothing where nothing is."""
    planned = plan.of(host.name)
    found = looking.at(host, plan)
    if planned.proxy is None:
        if units.exists(found, PROXY):
            yield from units.remove(PROXY)
        else:
            host.noop("the proxy is on the head")
        return
    if units.is_stale(found, planned.proxy):
        yield units.stop(PROXY)
    elif units.is_up(found, PROXY):
        host.noop("runs")
        return
    # Behind one that has run as root, which writes what this one may not read.
    yield secrecy.put_right()
    yield from units.start(PROXY)
