"""The proxies: on each node that serves one, all with the same key."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import cache

from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand, StringCommand
from pyinfra.api.host import Host

from operations import looking, units
from operations.patience import quietly
from operations.plan.places import PROXY, PROXY_KEY
from operations.plan.plan import Plan


@looking.step
def files(plan: Plan) -> Iterator[PyinfraCommand]:
    """Unit and configuration."""
    service = plan.of(host.name).proxy
    if service is None:
        host.noop("no engine, no proxy")
        return
    yield from units.place_service(service, looking.at(host, plan)["files"])


@looking.step
def key(plan: Plan) -> Iterator[PyinfraCommand]:
    """The owner's key, the same on all nodes with a proxy: the head's, or that of the first node that has one, or on
    the first deploy a new one.
    """
    known = {name: looking.at(state.inventory.get_host(name), plan)["secrets"][PROXY_KEY] for name in plan.urls}
    source = next((name for name, found in known.items() if found), "")
    if host.name not in known or (source and known[host.name] == known[source]):
        host.noop("no proxy, no key" if host.name not in known else "the key is here")
        return
    if units.is_running(looking.at(host, plan), PROXY):
        # It has the old one, which nobody can read any more.
        host.log("the proxy's key here is gone, or not the other nodes': `make endpoint` prints the one that is valid")
        yield units.stop(PROXY)
    aside = f"{PROXY_KEY}.part"
    yield quietly(lambda state, host: _put(host, aside, _read(state.inventory.get_host(source)) if source else _new()))


def _put(where: Host, aside: str, secret: str) -> bool:
    """On standard input, which nothing logs; whole, or not at all."""
    put = f"install -d -m 700 $(dirname {aside}) && umask 077 && cat > {aside} && mv {aside} {PROXY_KEY}"
    done, _ = where.run_shell_command(StringCommand(put), _sudo=True, _stdin=f"{secret}\n")
    return done


def _read(where: Host) -> str:
    done, output = where.run_shell_command(StringCommand("cat", PROXY_KEY), _sudo=True, print_output=False)
    if not done or not output.stdout.strip():
        raise RuntimeError(f"{where.name}: {PROXY_KEY} can't be read")
    return output.stdout.strip()


@cache
def _new() -> str:
    """The same for all nodes: one process is one run."""
    return f"sk-{secrets.token_urlsafe(32)}"


@looking.step
def run(plan: Plan) -> Iterator[PyinfraCommand]:
    """Run what is planned, and nothing where nothing is."""
    planned = plan.of(host.name)
    found = looking.at(host, plan)
    if planned.proxy is None:
        if units.exists(found, PROXY):
            yield from units.remove(PROXY)
        else:
            host.noop("no engine, no proxy")
        return
    if units.is_stale(found, planned.proxy):
        yield units.stop(PROXY)
    elif units.is_up(found, PROXY):
        host.noop("runs")
        return
    yield from units.start(PROXY)
