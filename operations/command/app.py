"""`tandem`: reads what was typed, runs the verb, ends with its exit code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from operations.command import begin as begin
from operations.command import choose as choose
from operations.command import daily as daily
from operations.command import disks as disks
from operations.command import examine as examine
from operations.command import keys as keys
from operations.command import lab as lab
from operations.command import meant
from operations.command.groups import EXITS, app, put_in_order
from operations.command.origin import commit
from operations.command.version import version
from operations.plan.config.refusal import Refusal

NOT_UNDERSTOOD, INTERRUPTED = 2, 130
#: For who has no folder yet.
BEGIN = "Begin: `tandem init ~/sparks` (finds your Sparks), then `cd ~/sparks && tandem apply`"
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
    typed = sys.argv[1:] if argv is None else argv
    if not typed and "_TANDEM_COMPLETE" not in os.environ and not _has_folder():
        print(BEGIN)
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
            print(f"tandem: {_told(error, typed)}", file=sys.stderr)
        return NOT_UNDERSTOOD


def _has_folder() -> bool:
    """Whether the owner's folder is here, or is named by a variable of the environment."""
    try:
        named = os.environ.get("TANDEM_INVENTORY") or Path(os.environ.get("TANDEM_FOLDER", "."), "inventory.py")
        return Path(named).expanduser().is_file()
    except (OSError, RuntimeError):
        return False


def _told(error: Exception, typed: Sequence[str]) -> str:
    """One line: what was not understood, and what is meant."""
    message = str(error.format_message()).rstrip(".")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    if context is None:
        return f"{message}; `tandem --help` lists what there is"
    path = context.command_path
    if unknown := re.match(r"No such command '(.*?)'", message):
        return meant.verb(path, unknown[1], list(context.command.commands))
    if extra := re.match(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", message):
        return meant.words(context, extra[1].split() or ["''"], typed)
    if (other := re.match(r"No such option: (\S+)", message)) and (said := meant.option(context, other[1], typed)):
        return said
    if message.startswith("Missing argument") and (examples := _EXAMPLE.findall(context.command.epilog or "")):
        message = f"{message}, e.g. `{examples[0]}`"
    return f"{message}; `{path} --help` lists what there is"
