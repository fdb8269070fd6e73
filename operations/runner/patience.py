"""Long waits, explained: a line every few seconds that says what is going on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec

import gevent
from pyinfra.api.command import FunctionCommand, StringCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.runner.tether import Tether
from operations.wire.model import Copied

P = ParamSpec("P")

#: Seconds between two lines.
EVERY_S = 10


def patiently(label: str, command: StringCommand) -> FunctionCommand:
    """A command that takes a minute or more, with a line every few seconds while it runs."""

    def run(state: State, host: Host) -> bool:
        with beat(host, label):
            done, output = host.run_shell_command(
                command,
                print_output=state.print_output,
                print_input=state.print_input,
                **{**command.connector_arguments, "_sudo": True},
            )
        if not done:
            raise RuntimeError(f"{label}: {_last(output.stderr_lines or output.stdout_lines)}")
        return True

    return _as_command(run)


def fail(text: str) -> FunctionCommand:
    """A command that fails the node with this text. (An exception in an operation's body would print a traceback.)"""

    def refuse(_state: State, _host: Host) -> bool:
        raise RuntimeError(text)

    return _as_command(refuse)


def python_step(function: Callable[[State, Host], Any]) -> FunctionCommand:
    """A step in Python; a RuntimeError, OSError or PyinfraError fails the node with its text, not with a traceback."""
    return _as_command(function)


@contextmanager
def beat(host: Host, label: str) -> Iterator[None]:
    """Say every EVERY_S seconds, for as long as the body runs, that `label` still goes on and since when."""
    start = time.monotonic()
    # Looked up here: `pyinfra.host` is one in this greenlet alone.
    say = host.log

    def talk() -> None:
        while True:
            gevent.sleep(EVERY_S)
            say(f"{label}: {time.monotonic() - start:.0f} s so far")

    talker = gevent.spawn(talk)
    try:
        yield
    finally:
        talker.kill()


def follow(host: Host, label: str, tether: Tether) -> Copied:
    """Print the progress that a node program reports, until its last line; returns that line.

    Raises RuntimeError with the program's own words when it failed.
    """
    said = time.monotonic()
    answer: Copied = {}
    while line := tether.read():
        answer = line
        if "done" in line or "error" in line:
            break
        if "said" in line:
            host.log(f"{label}: {line['said']}")
        if "bytes" in line and time.monotonic() - said >= EVERY_S:
            said = time.monotonic()
            host.log(f"{label}: {progress(line)}")
    if "error" in answer:
        raise RuntimeError(f"{label}: {answer['error']}")
    if not answer.get("done"):
        raise RuntimeError(f"{label}: broke off; run the deploy again, it goes on from here")
    return answer


def followed(
    label: str, program: Callable[P, Copied], *args: P.args, **kwargs: P.kwargs
) -> Callable[[State, Host], bool]:
    """A step that runs a node program as long as this deploy lives, and prints how far it is."""

    def run(_state: State, host: Host) -> bool:
        tether = Tether(host, program, *args, **kwargs)
        try:
            follow(host, label, tether)
        finally:
            tether.close()
        return True

    return run


def progress(line: Copied) -> str:
    """`12.3 of 74.8 GB, 1.9 GB/s, 33 s left, waits for the link`; size and limit may not be known."""
    rate = line["rate"]
    text, left = f"{line['bytes'] / 1e9:.1f}", ""
    if line.get("of"):
        text += f" of {line['of'] / 1e9:.1f}"
        left = f", {(line['of'] - line['bytes']) / rate:.0f} s left" if rate else ""
    if line["still"] >= EVERY_S:
        return f"{text} GB, nothing for {line['still']:.0f} s"
    return f"{text} GB, {rate / 1e9:.2f} GB/s{left}" + (f", waits for the {line['limit']}" if line.get("limit") else "")


def _as_command(function: Callable[[State, Host], Any]) -> FunctionCommand:
    def run(state: State, host: Host) -> bool:
        try:
            return function(state, host) is not False
        except (RuntimeError, OSError, PyinfraError) as error:
            # pyinfra's own: a node that dies in the middle of a step.
            host.log_styled(str(error), fg="red")
            return False

    return FunctionCommand(run, [], {})


def _last(lines: list[str]) -> str:
    return " / ".join(line for line in lines[-3:] if line.strip()) or "no output"
