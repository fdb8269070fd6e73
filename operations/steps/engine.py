"""The engines of the plan: their files first, then what is not in it goes, then starts."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand, StringCommand

from operations.paths import RAY_TOKEN
from operations.plan.cluster.served_model import ServedModel, joins_by_ray
from operations.plan.decide import engine as decide
from operations.runner.carrying_out import carry_out, seen
from operations.runner.run import Run, step


@step
def retire(run: Run) -> Iterator[PyinfraCommand]:
    """Stop engines that are not the plan's, or not any more, on all nodes at once: ranks end with each other anyhow. In
    replicas a live one waits for its turn (`renew`); one that has no container yet, or that nobody reaches, serves
    nobody, and needs none.
    """
    yield from carry_out(run, decide.retire(seen(run), host.name))


@step
def files(run: Run) -> Iterator[PyinfraCommand]:
    """Units, environments and scripts. An engine that runs does not read them again. One that waits for its turn keeps
    its own until then (`tandem plan` shows what comes): should it end before, it comes back as what the proxies know.
    """
    yield from carry_out(run, decide.files(seen(run), host.name))


@step
def ray_token(run: Run) -> Iterator[PyinfraCommand]:
    """One token on all nodes, made on the first deploy. It travels on standard input, which nothing logs."""
    names = {node.name for each in run.plan.models if joins_by_ray(each) for node in each.nodes}
    if not names:
        host.noop("no Ray, no token")
        return
    if host.name not in names:
        host.noop("no rank of Ray's is here")
        return
    hashes = {run.look(run.node(name))["secrets"][RAY_TOKEN] for name in names}
    if len(hashes) == 1 and "" not in hashes:
        host.noop("all nodes have the same token")
        return
    aside = f"{RAY_TOKEN}.part"
    yield StringCommand(
        f"install -d -m 700 $(dirname {RAY_TOKEN}) && umask 077 && cat > {aside} && mv {aside} {RAY_TOKEN}",
        _stdin=run.once(RAY_TOKEN, lambda: secrets.token_hex(32)),
    )


@step
def start(run: Run) -> Iterator[PyinfraCommand]:
    """Start what is not running."""
    yield from carry_out(run, decide.start(seen(run), host.name))


@step
def stand_in(run: Run, model: ServedModel, turn: str) -> Iterator[PyinfraCommand]:
    """Makes sure that another replica serves before the engine of `turn` stops. Else the deploy ends here.

    `turn`: the node whose engine is renewed next. Engines that were down have been started from the new files, all at
    once. This step waits for them.
    """
    yield from carry_out(run, decide.stand_in(seen(run), model, turn, host.name))


def proxy_follows(run: Run) -> bool:
    """Whether an engine is about to stop while another serves as this plan has it: the proxy has to know that one."""
    return run.started.stands_in


def all_are_new(run: Run) -> bool:
    """Whether no engine serves that is still to be renewed: then the proxies need not wait for those that start."""
    return decide.all_are_new(seen(run))


@step
def renew(run: Run, model: ServedModel, turn: str) -> Iterator[PyinfraCommand]:
    """In replicas: restart the engine of the node whose turn it is, and wait for its answer before the next one's."""
    yield from carry_out(run, decide.renew(seen(run), model, turn, host.name))


@step
def ready(run: Run) -> Iterator[PyinfraCommand]:
    """Wait for a real answer of each engine: bounded, explained, and ended early when it can't come any more."""
    yield from carry_out(run, decide.ready(seen(run), host.name))
    yield from carry_out(run, decide.forget_restarts(seen(run), host.name))
