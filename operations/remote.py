"""Running the programs of `operations.node` on a node: sent with the command, run from memory, nothing left behind."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, cast

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.facts import FactBase
from pyinfra.api.host import Host

#: Reads one line (the programs, zipped), imports them from memory and prints what `main` of one returns.
_BOOTSTRAP = (
    "import base64,importlib,json,os,sys;"
    "fd=os.memfd_create('tandem');"
    "os.write(fd,base64.b64decode(sys.stdin.buffer.readline()));"
    "sys.path.insert(0,f'/proc/self/fd/{fd}');"
    "program=importlib.import_module('operations.node.'+sys.argv[1]);"
    "print(json.dumps(program.main(**json.loads(sys.argv[2]))))"
)


class _Line(str):
    """A long line that shows as a word where pyinfra prints what it sends (-v)."""

    def __format__(self, _spec: str) -> str:
        return "(programs)"


@cache
def programs() -> str:
    """All node programs as one line of base64."""
    package = Path(__file__).parent
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(package / "__init__.py", "operations/__init__.py")
        for file in sorted(each for room in ("node", "shapes") for each in (package / room).rglob("*.py")):
            archive.write(file, f"operations/{file.relative_to(package)}")
    return _Line(base64.b64encode(buffer.getvalue()).decode() + "\n")


def command(program: str, arguments: dict[str, Any]) -> StringCommand:
    """The shell command that runs a program; its standard input begins with `programs()`."""
    return StringCommand("python3 -c", QuoteString(_BOOTSTRAP), program, QuoteString(json.dumps(arguments)))


class Program(FactBase[dict[str, Any]]):
    """A fact that a node program answers."""

    def command(self, program: str, arguments: dict[str, Any]) -> StringCommand:
        return command(program, arguments)

    def process(self, output: list[str]) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(output[-1])) if output else {}


class Survey(FactBase[dict[str, Any]]):
    """The survey: runs as the login, takes root by itself, and says so when it can't."""

    def command(self, arguments: dict[str, Any]) -> StringCommand:
        as_root = StringCommand('sudo -n env "SSH_CONNECTION=$SSH_CONNECTION"', command("survey", arguments))
        return StringCommand(
            "if ! command -v python3 >/dev/null; then cat >/dev/null; echo '{\"python\": false}';",
            "elif ! sudo -n true 2>/dev/null; then cat >/dev/null; echo '{\"sudo\": false}';",
            *("else", as_root, "; fi"),
        )

    def process(self, output: list[str]) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(output[-1])) if output else {}


def ask(host: Host, program: str, **arguments: Any) -> dict[str, Any]:
    """What a program says on a node, run as root, in one round trip. Where it can't be run the node has failed."""
    return host.get_fact(Program, **_asked(program, "", arguments))


def hand(host: Host, stdin: str, program: str, **arguments: Any) -> dict[str, Any]:
    """The same, of a program that reads this from its standard input."""
    return host.get_fact(Program, **_asked(program, stdin, arguments))


def ask_or_none(host: Host, program: str, stdin: str = "", **arguments: Any) -> dict[str, Any] | None:
    """The same; None where it can't be run, and the others go on."""
    asked = _asked(program, stdin, arguments)
    return cast("dict[str, Any] | None", host.get_fact(Program, **asked, _ignore_errors=True))


def _asked(program: str, stdin: str, arguments: dict[str, Any]) -> dict[str, Any]:
    sent = _Line(programs() + stdin)
    return {"program": program, "arguments": arguments, "_stdin": sent, "_sudo": True}
