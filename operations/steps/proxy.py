"""The proxies: on each node that serves one, before two LiteLLM, all with the same key."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand, QuoteString, StringCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.paths import (
    ADDRESS,
    ADMIN,
    CLIENT_KEYS,
    LITELLM,
    OFFICE,
    PROXY,
    PROXY_CONFIG,
    PROXY_KEY,
    PROXY_USER,
    folder_of,
)
from operations.plan.cluster.addresses import is_local
from operations.plan.cluster.served_model import ServedModel
from operations.plan.services.address import to_be_told
from operations.plan.services.litellm import behind
from operations.plan.services.litellm_service import litellm_service, server
from operations.plan.services.service import Service
from operations.runner import client_keys, successors, units
from operations.runner.managed_files import put_secrets_right
from operations.runner.patience import python_step
from operations.runner.run import Run, step
from operations.wire.look import Look

_ASIDE, _OWNER = f"{PROXY_KEY}.part", f"{PROXY_USER}:{PROXY_USER}"
#: Makes the owner's key, with its folder, of standard input.
TAKE_KEY = (
    f"install -d -o {PROXY_USER} -g {PROXY_USER} -m 700 $(dirname {PROXY_KEY}) && umask 077"
    f" && cat > {_ASIDE} && chown {_OWNER} {_ASIDE} && mv {_ASIDE} {PROXY_KEY}"
)


@step
def keys(run: Run) -> Iterator[PyinfraCommand]:
    """The owner's key and those of clients, the same on all nodes with a proxy: the head's, or where it has none those
    of the first node that has some. On the first deploy the owner's is made.
    """
    if host.name not in run.plan.urls:
        host.noop("no proxy, no keys")
        return
    known = _hashes(run, PROXY_KEY)
    source = next((name for name, found in known.items() if found), "")
    if not source or known[host.name] != known[source]:
        if units.is_running(run.look(host), PROXY):
            # It has the old one, which nobody can read any more.
            host.log("the owner's key here is gone, or not the other nodes': `tandem endpoint` prints the valid one")
        yield python_step(partial(_copy, run, source))
    known = _hashes(run, CLIENT_KEYS)
    if not client_keys.are(known, host.name):
        yield python_step(partial(client_keys.take_over, client_keys.source(known)))
    host.noop("the keys are here")


def _hashes(run: Run, path: str) -> dict[str, str]:
    """Of a file on each node with a proxy, the head first; empty: it has none."""
    return {name: run.look(run.node(name))["secrets"][path] for name in run.plan.urls}


def _copy(run: Run, source: str, _state: State, host: Host) -> bool:
    """On standard input, which nothing logs; whole, or not at all."""
    secret = _read(run.node(source)) if source else run.once(PROXY_KEY, _new)
    done, _ = host.run_shell_command(StringCommand(TAKE_KEY), _sudo=True, _stdin=f"{secret}\n")
    return done


def _read(where: Host) -> str:
    done, output = where.run_shell_command(StringCommand("cat", PROXY_KEY), _sudo=True, print_output=False)
    if not done or not output.stdout.strip():
        raise RuntimeError(f"{where.name}: {PROXY_KEY} can't be read")
    return output.stdout.strip()


def _new() -> str:
    return f"sk-{secrets.token_urlsafe(32)}"


@step
def serve(run: Run) -> Iterator[PyinfraCommand]:
    """The two LiteLLM and the proxy before them, as planned; one LiteLLM after the other: no request is lost."""
    mine = run.plan.of(host.name)
    if PROXY not in mine.services:
        here = [unit for unit in (ADDRESS, PROXY, *LITELLM) if units.exists(run.look(host), unit)]
        for unit in here:
            yield from units.remove(unit)
        if not here:
            host.noop("no engine, no proxy")
        return
    idle = True
    for command in chain(_served(run, mine.container(PROXY), _over_what_serves(run)), _at_its_address(run)):
        idle = False
        yield command
    if idle:
        host.noop("runs")


def _over_what_serves(run: Run) -> Sequence[Service]:
    """The two LiteLLM over engines as they are now: one that waits for its turn to be renewed may serve at another
    address until then.
    """
    planned = [run.plan.of(host.name).container(unit) for unit in LITELLM]
    if not state.is_executing:
        return planned
    meant = [behind(each) for each in run.plan.models]
    models = [
        replace(other, engines=tuple(_urls(run, each)) if each.takes_turns else other.engines)
        for each, other in zip(run.plan.models, meant, strict=True)
    ]
    return planned if models == meant else [litellm_service(run.plan.knobs, models, each.unit) for each in planned]


def _urls(run: Run, model: ServedModel) -> Iterator[str]:
    """Where engines of a model answer this node's proxy. Of one that waits for its turn both where it is and where it
    will be: a deploy that is broken off behind its renewal could tell nobody.
    """
    for name, url in model.endpoints.items():
        found = run.look(run.node(name))
        runs = (
            units.unit_state(found, model.unit)
            if units.is_stale(found, run.plan.of(name).container(model.unit))
            else {}
        )
        is_now, calls_itself = runs.get("url") or url, runs.get("model") or model.recipe.served_name
        # A solo's answers its own node alone, and one of an older name nobody who asks for the new one.
        is_asked = calls_itself == model.recipe.served_name and (name == host.name or not is_local(is_now))
        if is_now != url and is_asked:
            yield is_now
        if is_now != url or is_asked:
            yield url


def _served(run: Run, proxy: Service, behind: Sequence[Service]) -> Iterator[PyinfraCommand]:
    for service in (*behind, proxy):
        yield from units.place_service(service, run.look(host)["files"])
    found = run.look(host)
    # One that serves nobody comes first: it takes what comes while the other one is drained.
    first, *rest = sorted(behind, key=lambda each: _serves(found, each.unit))
    yield from _renewed(run, [first], behind)
    # HAProxy of an older plan may not find the new LiteLLM: it is renewed while it still has one.
    is_older = units.is_stale(found, proxy) and units.is_running(found, PROXY)
    # Those that its successor finds.
    new = [*(each for each in rest if not units.is_stale(found, each)), first]
    if is_older:
        yield from _before(run, proxy, new)
    yield from _renewed(run, rest, behind)
    if not is_older:
        yield from _before(run, proxy, new)


def _serves(found: Look, unit: str) -> tuple[bool, bool]:
    """Whether a LiteLLM runs, and whether it has said so itself."""
    return units.is_running(found, unit), bool(found["proxy"]["engines"].get(unit))


def _renewed(run: Run, some: Sequence[Service], behind: Sequence[Service]) -> Iterator[PyinfraCommand]:
    """Some of the LiteLLM `behind` the proxy, as planned."""
    found = run.look(host)
    for service in some:
        found = run.look(host)
        is_stale = units.is_stale(found, service) or service.unit in found["proxy"]["older"]
        if not is_stale and units.has_container(found, service.unit) and not _has_its_engines(found, service):
            # It takes them up by itself.
            taken: list[str] = []
            yield python_step(partial(successors.take_up, service, taken))
            found = run.look(host)
            is_stale = state.is_executing and not taken
        if is_stale and units.has_container(found, service.unit):
            others = [each.unit for each in behind if each is not service]
            yield python_step(partial(successors.drain, run, successors.pulses(found), service.unit, others))
        if is_stale:
            yield units.stop(service.unit)
        elif units.is_up(found, service.unit):
            if service.unit in found["proxy"]["drained"]:
                # A deploy that was broken off has left it so, and what it was to become is not wanted any more.
                yield StringCommand("python3", f"{folder_of(service.unit)}/undrain.py", ADMIN, server(service.unit))
            continue
        # Behind one that has run as root, which writes what this one may not read.
        yield put_secrets_right()
        yield from units.start(service.unit)


def _before(run: Run, proxy: Service, new: Sequence[Service]) -> Iterator[PyinfraCommand]:
    """HAProxy, as planned; `new`: the LiteLLM that it finds, the one that may still start last."""
    found = run.look(host)
    if units.is_stale(found, proxy):
        if units.is_running(found, PROXY):
            # What serves, goes on until there is somebody behind its successor.
            yield python_step(partial(successors.answers, run, new))
        yield units.stop(PROXY)
    elif units.is_up(found, PROXY):
        # One that waits for its start will read what lies there.
        is_older = found["proxy"]["loaded"] != next(file.sha256 for file in proxy.files if file.path == PROXY_CONFIG)
        # Another certificate lies there than the one that it has read.
        is_older = is_older or (run.plan.knobs.tls != "off" and found["certificate"]["newer"])
        if is_older and units.has_container(found, PROXY):
            # A stream that is under way ends in the old configuration.
            yield StringCommand("systemctl reload", f"{PROXY}.service")
        return
    yield from units.start(PROXY)


def _at_its_address(run: Run) -> Iterator[PyinfraCommand]:
    found, address = run.look(host), run.plan.of(host.name).services.get(ADDRESS)
    if address is None:
        if units.exists(found, ADDRESS):
            yield from units.remove(ADDRESS)
        return
    yield from units.place_service(address, found["files"])
    heard, absent = found["office"]["known"], [each.name for each in run.absent]
    if known := to_be_told(host.name, [each.node for each in run.plan.nodes], absent, heard):
        words = [QuoteString(f"{name}={','.join(addresses)}") for name, addresses in known.items()]
        yield StringCommand("python3", "-B", f"{folder_of(OFFICE)}/office.py", "know", *words)
    yield from units.renew(run.look(host), address)


def _has_its_engines(found: Look, service: Service) -> bool:
    return bool(found["proxy"]["engines"].get(service.unit) == successors.config_hash(service))
