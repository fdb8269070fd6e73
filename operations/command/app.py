"""`tandem`: reads what was typed, runs the verb, ends with its exit code."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from operations.command import begin as begin
from operations.command import choose as choose
from operations.command import daily as daily
from operations.command import disks as disks
from operations.command import examine as examine
from operations.command import keys as keys
from operations.command import lab as lab
from operations.command.groups import EXITS, app, put_in_order
from operations.command.origin import commit
from operations.command.version import version
from operations.plan.config.refusal import Refusal, nearest

NOT_UNDERSTOOD, INTERRUPTED = 2, 130
#: In the end of a verb's help (groups.py).
_EXAMPLE = re.compile(r"^Example: (.*)$", re.M)

put_in_order()


def _version(is_asked: bool) -> None:
    if is_asked:
        print(f"tandem {version()} {f'({known})' if (known := commit()) else ''}".rstrip())
        raise typer.Exit


@app.callback(epilog=f"Exit codes: {', '.join(f'{code} {why}' for code, why in EXITS.items())}.")
def start(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version, and end.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Two or more DGX Sparks as one LLM service. `tandem VERB --help` says more of each."""


def main(argv: list[str] | None = None) -> int:
    """Ends with the verb's own exit code (`groups.EXITS`); a fault is told in a line, and never as a traceback."""
    try:
        return int(app(argv, prog_name="tandem", standalone_mode=False) or 0)
    except Refusal as refusal:
        for finding in refusal.findings:
            print(f"tandem: {finding.where}: {finding.problem}; {finding.remedy}", file=sys.stderr)
        return NOT_UNDERSTOOD
    except (KeyboardInterrupt, typer.Abort):
        print(file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        # Typer has a copy of click of its own, and names its errors nowhere else.
        if not hasattr(error, "format_message"):
            raise
        # Without a verb it is the help, which was shown.
        if error.format_message():
            print(f"tandem: {_told(error)}", file=sys.stderr)
        return NOT_UNDERSTOOD


def _told(error: Exception) -> str:
    """One line: what was not understood, and what comes nearest."""
    message = str(error.format_message()).rstrip(".")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    words = context.command_path if context else "tandem"
    if unknown := re.match(r"No such command '(.*?)'", message):
        verbs = list(context.command.commands) if context else []
        return f"no verb is named `{unknown[1]}`: {nearest(unknown[1], verbs, f'`{words} --help` lists them')}"
    if extra := re.match(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", message):
        message = f"`{words}` takes no `{extra[1]}` (no verb takes a node: each is about all of them)"
    examples = _EXAMPLE.findall(context.command.epilog or "") if context else []
    if message.startswith("Missing argument") and examples:
        message = f"{message}, e.g. `{examples[0]}`"
    return f"{message}; `{words} --help` lists what there is"
