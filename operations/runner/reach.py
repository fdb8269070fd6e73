"""Which nodes answer: those that do not are told in a line each, in seconds, and the run goes on with the others."""

from __future__ import annotations

import errno
import logging

import gevent
from pyinfra import logger
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.plan.config.refusal import Finding, Refusal
from operations.runner import given, tether
from operations.runner.reasons import explain, took
from operations.runner.run import this_run

#: Seconds in which a node has to be found and take the connection: room for a first packet that is lost twice (it is
#: sent again after 1 and 3 s). One that is off is known to be after 3 on the same network, where nobody answers ARP.
#: Whoever asks how the others are waits for it.
CONNECT_S = 4.0
#: Seconds more in which one that took it has to shake hands and let us in: it may swap, load a model or boot, and a key
#: may want a touch. (Its first line is waited for 15 s: paramiko's own limit.)
ENTER_S = 20
#: The exit code of a run in which no node answers.
NOBODY = 3


def install() -> None:
    """From now on pyinfra connects as `connect_all` does.

    Its own way ends the run when a node is away and FAIL_PERCENT is 0. With another value it goes on, but lets one node
    fail in the midst of a deploy while the others change, ends with 1, and keeps no reason.
    """
    # Not at the top: importing it makes all of Python's blocking calls gevent's, which is for a run of pyinfra alone.
    import pyinfra_cli.cli

    pyinfra_cli.cli.connect_all = connect_all
    logger.addFilter(_is_news)
    # Without a handler it prints a traceback for each connection that ends early.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())


def connect_all(state: State) -> None:
    """Connect to all nodes at once; raises CliError where that leaves nobody to talk to.

    Afterwards one node's failure stops all of them: half a cluster is none.
    """
    from pyinfra_cli.exceptions import CliError

    if not len(state.inventory):
        remedy = 'it wants `nodes = [("spark-1.local", {}), ...]`, the head first'
        given.refuse(Refusal(Finding("inventory", "names no node", remedy)))
    hosts = [host for host in state.inventory if state.is_host_in_limit(host)]
    if not hosts:
        raise CliError("--limit and --exclude leave no node of the inventory")
    given.check_knobs(state)
    usual = state.config.CONNECT_TIMEOUT
    # It is for the handshake too; what comes before that is limited here.
    state.config.CONNECT_TIMEOUT = ENTER_S
    # Told in the inventory's order, whichever is known first.
    for host, task in [(host, gevent.spawn(_connect, state, host)) for host in hosts]:
        if cause := task.get():
            this_run().lose(host, explain(host, cause))
    state.config.CONNECT_TIMEOUT = usual
    if not state.active_hosts:
        silent = CliError("no node answers")
        silent.exit_code = NOBODY
        raise silent
    state.config.FAIL_PERCENT = 0


def _connect(state: State, host: Host) -> BaseException | None:
    """Connect within the limits; what it failed with."""
    cause: BaseException | None
    try:
        if hasattr(host.connector, "make_paramiko_kwargs"):
            # Reads the key; where that has a passphrase it asks for it, and people may take their time.
            host.connector.make_paramiko_kwargs()
    except PyinfraError as error:
        cause = error.__context__ or error
    else:
        task = gevent.spawn(_try, host)
        task.join(CONNECT_S)
        if took(host):
            task.join(ENTER_S)
        cause = task.get() if task.ready() else TimeoutError(errno.ETIMEDOUT, "timed out")
        task.kill()
    if cause is None:
        tether.quicken(host)
        state.activate_host(host)
    return cause


def _try(host: Host) -> BaseException | None:
    """Connect; what it failed with. (An exception that ends a greenlet prints a traceback.)"""
    try:
        host.connect(show_errors=False, raise_exceptions=True)
    except PyinfraError as error:
        return error.__context__ or error
    return None


def _is_news(record: logging.LogRecord) -> bool:
    """Less what pyinfra's connector says of a host key in four lines: ours says it in one. That nobody has known any
    host yet is none either.
    """
    is_known = record.levelno >= logging.ERROR or str(record.msg).startswith("Failed to load host keys")
    return record.module != "ssh" and not (record.module == "client" and is_known)
