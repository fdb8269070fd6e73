"""Putting rendered files on a node: compared by content and mode in one round trip, shown as a diff, replaced atomically."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
from pyinfra import host, state
from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.operations.util.files import generate_color_diff

from operations.plan.files import File
from operations.remote import ask


def place(files: Sequence[File], folders: Sequence[str] = ()) -> Iterator[StringCommand]:
    """Commands that write what differs, and remove what lies in `folders` and is not planned."""
    answer = ask(
        host, "files", paths=[f.path for f in files], folders=list(folders), contents=bool(state.config.DIFF)
    )
    present = answer["files"]
    for file in files:
        found = present.get(file.path)
        if found and found["sha256"] == file.sha256 and found["mode"] == file.mode:
            continue
        show_diff(file, found.get("text", "") if found else "")
        yield write(file)
    for stray in answer["strays"]:
        host.log(f"{stray} does not belong to the plan: removed")
        yield StringCommand("rm", QuoteString(stray))


def write(file: File) -> StringCommand:
    """Write aside, then rename: nobody ever reads half a file. The content goes through standard input."""
    aside = QuoteString(f"{file.path}.tandem-new")
    return StringCommand(
        *("install -D -m", file.mode, "/dev/stdin", aside, "&& mv -f", aside, QuoteString(file.path)),
        _stdin=file.content,
    )


def show_diff(file: File, old: str) -> None:
    """With --diff, what will change in a file."""
    if state.config.DIFF:
        click.echo(f"{host.print_prefix}{file.path}", err=True)
        for line in generate_color_diff(old.splitlines(), file.content.splitlines()):
            click.echo(f"{host.print_prefix}    {line}", err=True)
