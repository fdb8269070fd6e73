"""Running the programs of `operations.node` on a node: sent with the command, run from memory, nothing left behind."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.facts import FactBase
from pyinfra.api.host import Host

from operations import node
from operations.node.look import survey
from operations.wire import Json, look

P = ParamSpec("P")
A = TypeVar("A")

#: Reads one line (the programs, zipped), imports them from memory and prints what a function of one returns.
_BOOTSTRAP = (
    "import base64,importlib,json,os,sys;"
    "fd=os.memfd_create('tandem');"
    "os.write(fd,base64.b64decode(sys.stdin.buffer.readline()));"
    "sys.path.insert(0,f'/proc/self/fd/{fd}');"
    "module,_,function=sys.argv[1].partition(':');"
    "program=getattr(importlib.import_module('operations.node.'+module),function or 'main');"
    "print(json.dumps(program(**json.loads(sys.argv[2]))))"
)


class _Line(str):
    """A long line that shows as a word where pyinfra prints what it sends (-v)."""

    def __format__(self, _spec: str) -> str:
        return "(programs)"


@cache
def programs() -> str:
    """All node programs as one line of base64."""
    package = Path(__file__).parents[1]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for shared in ("__init__.py", "paths.py"):
            archive.write(package / shared, f"operations/{shared}")
        for file in sorted(each for room in ("node", "wire") for each in (package / room).rglob("*.py")):
            archive.write(file, f"operations/{file.relative_to(package)}")
    return _Line(base64.b64encode(buffer.getvalue()).decode() + "\n")


def command(program: str, arguments: Mapping[str, Any]) -> StringCommand:
    """The shell command that runs a program; its standard input begins with `programs()`."""
    return StringCommand("python3 -c", QuoteString(_BOOTSTRAP), program, QuoteString(json.dumps(arguments)))


class Program(FactBase[Any]):
    """A fact that a node program answers; the shape is the program's."""

    def command(self, program: str, arguments: Mapping[str, Any]) -> StringCommand:
        return command(program, arguments)

    def process(self, output: list[str]) -> Any:
        return json.loads(output[-1]) if output else {}


class Survey(FactBase[look.Survey]):
    """The survey: runs as the login, takes root by itself, and says so when it can't."""

    def command(self, arguments: Mapping[str, Any]) -> StringCommand:
        as_root = StringCommand('sudo -n env "SSH_CONNECTION=$SSH_CONNECTION"', command(called(survey.main), arguments))
        return StringCommand(
            "if ! command -v python3 >/dev/null; then cat >/dev/null; echo '{\"python\": false}';",
            "elif ! sudo -n true 2>/dev/null; then cat >/dev/null; echo '{\"sudo\": false}';",
            *("else", as_root, "; fi"),
        )

    def process(self, output: list[str]) -> look.Survey:
        return cast("look.Survey", json.loads(output[-1])) if output else {}


def ask(host: Host, program: Callable[P, A], *args: P.args, **kwargs: P.kwargs) -> A:
    """What a program says on a node, run as root, in one round trip. Where it can't be run the node has failed.

    `program`: a function of `operations.node`, and behind it what it takes. It is not called here.
    """
    return cast("A", host.get_fact(Program, **_asked("", program, args, kwargs)))


def ask_or_none(host: Host, program: Callable[P, A], *args: P.args, **kwargs: P.kwargs) -> A | None:
    """The same; None where it can't be run, and the others go on."""
    return cast("A | None", host.get_fact(Program, **_asked("", program, args, kwargs), _ignore_errors=True))


def hand(host: Host, stdin: str, program: Callable[P, A], *args: P.args, **kwargs: P.kwargs) -> A:
    """As `ask`, of a program that reads `stdin` from its standard input: secrets stay out of arguments."""
    return cast("A", host.get_fact(Program, **_asked(stdin, program, args, kwargs)))


def hand_or_none(host: Host, stdin: str, program: Callable[P, A], *args: P.args, **kwargs: P.kwargs) -> A | None:
    """As `hand`; None where it can't be run, and the others go on."""
    return cast("A | None", host.get_fact(Program, **_asked(stdin, program, args, kwargs), _ignore_errors=True))


def called(program: Callable[..., Any]) -> str:
    """As the bootstrap finds it: `door.keys` for the `main` of a module, `network.rails:apply` for another function."""
    module = program.__module__.removeprefix(f"{node.__name__}.")
    return module if program.__name__ == "main" else f"{module}:{program.__name__}"


def named(program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by their names, as they are sent. Raises TypeError when the program doesn't take them."""
    bound = signature(program).bind(*args, **kwargs)
    arguments = dict(bound.arguments)
    for each in bound.signature.parameters.values():
        if each.kind is each.VAR_KEYWORD:
            arguments |= arguments.pop(each.name, {})
    return arguments


def _asked(stdin: str, program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Json:
    # pyinfra ends a last line that has no end, and formats all of it for that.
    sent = _Line(programs() + stdin + ("" if stdin.endswith("\n") or not stdin else "\n"))
    return {"program": called(program), "arguments": named(program, args, kwargs), "_stdin": sent, "_sudo": True}
