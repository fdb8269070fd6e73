"""What is done about the two LiteLLM of a node, the HAProxy before them, and its virtual address.

Each function is one phase: the node is looked at anew before the next one, because what this one did changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from operations.paths import ADDRESS, LITELLM, PROXY, PROXY_CONFIG
from operations.plan.cluster.addresses import is_local
from operations.plan.cluster.served_model import ServedModel
from operations.plan.decide.actions import (
    Actions,
    AwaitSuccessor,
    Drain,
    FixSecrets,
    Reload,
    Remove,
    Start,
    Stop,
    TakeBack,
    TakeUp,
    TellAddresses,
    place,
)
from operations.plan.decide.seen import Seen
from operations.plan.decide.unit_state import (
    differences,
    exists,
    has_container,
    is_running,
    is_stale,
    is_up,
    out_of_place,
    unit_state,
)
from operations.plan.services.address import to_be_told
from operations.plan.services.litellm import behind
from operations.plan.services.litellm_service import config_of, litellm_service, pulse
from operations.plan.services.service import Program, Service
from operations.wire.look import Look

#: Takes a look, and the units that have not taken up their engines in the phase before.
Phase = Callable[[Look, Collection[str]], Actions]


@dataclass(frozen=True)
class Proxies:
    """Those of one node: the HAProxy, and the LiteLLM behind it in the order in which they are renewed."""

    proxy: Service
    litellm: tuple[Service, ...]
    #: Whether HAProxy is of an older plan: it may not find a new LiteLLM, so it is renewed while it still has one.
    is_older: bool = False
    #: The LiteLLM that a new HAProxy finds, the one that may still start last.
    new: tuple[Service, ...] = ()


def gone(seen: Seen, name: str) -> Actions:
    """A node without an engine has no proxy."""
    return tuple(Remove(unit) for unit in (ADDRESS, PROXY, *LITELLM) if exists(seen.look(name), unit))


def planned(seen: Seen, name: str) -> Proxies:
    """The proxies of a node over engines as they are now: one that waits for its turn to be renewed may serve at
    another address until then.
    """
    mine = seen.plan.of(name)
    litellm, meant = (
        [mine.container(unit) for unit in LITELLM],
        [behind(each, seen.plan.knobs) for each in seen.plan.models],
    )
    if seen.is_dry:
        return Proxies(mine.container(PROXY), tuple(litellm))
    models = [
        replace(other, engines=tuple(_urls(seen, each, name)) if each.takes_turns else other.engines)
        for each, other in zip(seen.plan.models, meant, strict=True)
    ]
    if models != meant:
        litellm = [litellm_service(seen.plan.knobs, models, each.unit) for each in litellm]
    return Proxies(mine.container(PROXY), tuple(litellm))


def _urls(seen: Seen, model: ServedModel, here: str) -> Iterator[str]:
    """URLs at which this node's proxy reaches the engines of a model. One that is still to be renewed has two, the old
    and the new: a deploy that is interrupted leaves one that works.
    """
    for name, url in model.endpoints.items():
        found = seen.look(name)
        is_older = is_stale(found, seen.plan.of(name).container(model.unit))
        runs = unit_state(found, model.unit) if is_older else {}
        is_now, calls_itself = runs.get("url") or url, runs.get("model") or model.recipe.served_name
        # A solo's answers its own node alone, and one of an older name nobody who asks for the new one.
        is_asked = calls_itself == model.recipe.served_name and (name == here or not is_local(is_now))
        if is_now != url and is_asked:
            yield is_now
        if is_now != url or is_asked:
            yield url


def files(proxies: Proxies, found: Look) -> Actions:
    """Files of all of them, before the first one stops."""
    return tuple(each for one in (*proxies.litellm, proxies.proxy) for each in _placed(one, found))


def in_order(proxies: Proxies, found: Look) -> Proxies:
    """The order of their renewal. A LiteLLM that serves nobody comes first: it takes what comes while the other one is
    drained.
    """
    first, *rest = sorted(proxies.litellm, key=lambda each: _serves(found, each.unit))
    is_older = is_stale(found, proxies.proxy) and is_running(found, PROXY)
    new = (*(each for each in rest if not is_stale(found, each)), first)
    return replace(proxies, litellm=(first, *rest), is_older=is_older, new=new)


def _serves(found: Look, unit: str) -> tuple[bool, bool]:
    """Whether a LiteLLM runs, and whether it has said so itself."""
    return is_running(found, unit), bool(found["proxy"]["engines"].get(unit))


def renewals(proxies: Proxies, *, tls: bool) -> Iterator[Phase]:
    """Phases of the renewal, in order. `tls`: HAProxy has a certificate."""
    first, *rest = proxies.litellm

    def last(found: Look, _: Collection[str]) -> Actions:
        return haproxy(proxies, found, tls=tls)

    yield from _one(proxies, first)
    if proxies.is_older:
        yield last
    for service in rest:
        yield from _one(proxies, service)
    if not proxies.is_older:
        yield last


def _one(proxies: Proxies, service: Service) -> tuple[Phase, Phase]:
    return lambda found, _: take_up(service, found), lambda found, left: renew(proxies, service, found, left)


def take_up(service: Service, found: Look) -> Actions:
    """A LiteLLM that is the plan's, and has other engines than its file, takes them up by itself."""
    has_others = found["proxy"]["engines"].get(service.unit) != config_hash(service)
    waits = not _is_older(service, found) and has_container(found, service.unit) and has_others
    return (TakeUp(service.unit, service),) if waits else ()


def renew(proxies: Proxies, service: Service, found: Look, not_taken: Collection[str] = ()) -> Actions:
    """A LiteLLM, as planned. `not_taken`: those that have not taken up their engines by themselves."""
    unit, others = service.unit, tuple(each.unit for each in proxies.litellm if each.unit != service.unit)
    started: Actions = (FixSecrets(), Start(unit))
    if _is_older(service, found) or unit in not_taken:
        drained: Actions = (Drain(unit, others, pulses(found)),) if has_container(found, unit) else ()
        return (*drained, Stop(unit), *started)
    if not is_up(found, unit):
        return started
    # A deploy that was broken off has left it so, and what it was to become is not wanted any more.
    return (TakeBack(unit),) if unit in found["proxy"]["drained"] else ()


def haproxy(proxies: Proxies, found: Look, *, tls: bool) -> Actions:
    """HAProxy, as planned. `tls`: it has a certificate."""
    proxy = proxies.proxy
    if is_stale(found, proxy):
        # What serves, goes on until there is somebody behind its successor.
        return (AwaitSuccessor(tuple(each.unit for each in proxies.new), proxies.new), Stop(PROXY), Start(PROXY))
    if not is_up(found, PROXY):
        return (Start(PROXY),)
    # One that waits for its start will read what lies there.
    is_older = found["proxy"]["loaded"] != next(file.sha256 for file in proxy.files if file.path == PROXY_CONFIG)
    # Another certificate lies there than the one that it has read.
    is_older = is_older or (tls and found["certificate"]["newer"])
    # A stream that is under way ends in the old configuration.
    return (Reload(PROXY),) if is_older and has_container(found, PROXY) else ()


def address(seen: Seen, name: str, absent: Collection[str]) -> Actions:
    """keepalived's files, and what it has to know of the others (`absent`: nodes that do not answer)."""
    found, wanted = seen.look(name), seen.plan.of(name).services.get(ADDRESS)
    if wanted is None:
        return (Remove(ADDRESS),) if exists(found, ADDRESS) else ()
    known = to_be_told(name, [each.node for each in seen.plan.nodes], absent, found["office"]["known"])
    return (*_placed(wanted, found), *([TellAddresses(known)] if known else []))


def keepalived(seen: Seen, name: str) -> Actions:
    """keepalived, as planned."""
    found, wanted = seen.look(name), seen.plan.of(name).services.get(ADDRESS)
    if wanted is None or not differences(found, wanted):
        return ()
    return (*([Stop(ADDRESS)] if is_stale(found, wanted) else []), Start(ADDRESS))


def config_hash(service: Service) -> str:
    """The hash of a LiteLLM's configuration."""
    return next(file.sha256 for file in service.files if file.path == config_of(service.unit))


def pulses(found: Look) -> dict[str, list[str]]:
    """Where each LiteLLM says that it runs: as planned, and where one of an older plan still does so elsewhere."""
    return {
        each: list(dict.fromkeys([f"unix:{pulse(each)}", *filter(None, [unit_state(found, each).get("pulse")])]))
        for each in LITELLM
    }


def _is_older(service: Service, found: Look) -> bool:
    return is_stale(found, service) or service.unit in found["proxy"]["older"]


def _placed(service: Program, found: Look) -> Actions:
    return place(service, out_of_place(service, found["files"]))
