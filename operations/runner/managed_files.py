"""Putting rendered files on a node: compared by content and mode, shown as a diff, replaced atomically."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
from pyinfra import host, state
from pyinfra.api.command import FunctionCommand, QuoteString, StringCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State
from pyinfra.operations.util.files import generate_color_diff

from operations.node.look import files as node_files
from operations.node.secret import modes
from operations.paths import SECRETS
from operations.plan.config.files import File
from operations.plan.decide.unit_state import differs, strays
from operations.runner.patience import python_step
from operations.runner.remote import ask
from operations.wire.look import FileState


def place(files: Sequence[File], present: dict[str, FileState], folder: str) -> Iterator[StringCommand]:
    """Commands that write what differs from what is `present`, and remove what lies in `folder` and is not planned."""
    changed = [file for file in files if differs(file, present)]
    # All of them before the first command: a dry run goes no further than that.
    for file in changed:
        show_diff(file)
    for file in changed:
        yield write(file)
    for stray in strays(files, present, folder):
        host.log(f"{stray} does not belong to the plan: removed")
        yield StringCommand("rm", QuoteString(stray))


def write(file: File) -> StringCommand:
    """Write aside, then rename: nobody ever reads half a file, and on a full disk none is left. The content goes
    through standard input.
    """
    aside = QuoteString(f"{file.path}.tandem-new")
    return StringCommand(
        *("install -D -m", file.mode, "/dev/stdin", aside, "&& mv -f", aside, QuoteString(file.path)),
        *("|| { rm -f", aside, "; false; }"),
        _stdin=file.content,
    )


def show_diff(file: File) -> None:
    """With --diff, what will change in a file."""
    if state.config.DIFF:
        old = ask(host, node_files.main, paths=[file.path], contents=True).get(file.path)
        click.echo(f"{host.print_prefix}{file.path}", err=True)
        for line in generate_color_diff((old.get("text", "") if old else "").splitlines(), file.content.splitlines()):
            click.echo(f"{host.print_prefix}    {line}", err=True)


def put_secrets_right() -> FunctionCommand:
    """Give secrets the owner and the mode that they shall have, whoever has written there as somebody else."""

    def run(_state: State, where: Host) -> bool:
        if left := ask(where, modes.main, folders=list(SECRETS), mend=True)["wrong"]:
            raise RuntimeError(f"{left[0]}, and can't be put right")
        return True

    return python_step(run)
