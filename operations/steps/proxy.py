"""The proxies: on each node that serves one, before two LiteLLM, all with the same key."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import partial

from pyinfra import host
from pyinfra.api.command import PyinfraCommand, StringCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.paths import CLIENT_KEYS, PROXY, PROXY_KEY, PROXY_USER
from operations.plan.decide import proxy as decide
from operations.plan.decide.unit_state import is_running
from operations.runner import client_keys
from operations.runner.carrying_out import carry_out, seen
from operations.runner.patience import python_step
from operations.runner.run import Run, step

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
        if is_running(run.look(host), PROXY):
            # It has the old one, which nobody can read any more.
            host.log("the owner's key here is gone, or not the other nodes': `tandem endpoint` prints the valid one")
        yield python_step(partial(_copy, run, source))
    known = _hashes(run, CLIENT_KEYS)
    if not client_keys.are(known, host.name):
        yield python_step(partial(client_keys.take_over, client_keys.source(known)))
    host.noop("the keys are here")


def _hashes(run: Run, path: str) -> dict[str, str]:
    """node -> hash of this file there, for nodes with a proxy, the head first; empty: it has none."""
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
    idle, has_proxy = True, PROXY in run.plan.of(host.name).services
    for command in _served(run) if has_proxy else carry_out(run, decide.gone(seen(run), host.name)):
        idle = False
        yield command
    if idle:
        host.noop("runs" if has_proxy else "no engine, no proxy")


def _served(run: Run) -> Iterator[PyinfraCommand]:
    """Phase after phase, each by a look of its own."""
    here = decide.planned(seen(run), host.name)
    yield from carry_out(run, decide.files(here, run.look(host)))
    here, left = decide.in_order(here, run.look(host)), list[str]()
    for phase in decide.renewals(here, tls=run.plan.knobs.tls != "off"):
        left = yield from carry_out(run, phase(run.look(host), left))
    absent = [each.name for each in run.absent]
    yield from carry_out(run, decide.address(seen(run), host.name, absent))
    yield from carry_out(run, decide.keepalived(seen(run), host.name))
