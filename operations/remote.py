"""Running the programs of `operations.node` on a node: sent with the command, run from memory, nothing left behind."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast, overload

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.facts import FactBase
from pyinfra.api.host import Host

from operations.shapes import Json, doctor, fabric, keys, look, model, plans, unit

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
        for shared in ("__init__.py", "paths.py"):
            archive.write(package / shared, f"operations/{shared}")
        for file in sorted(each for room in ("node", "shapes") for each in (package / room).rglob("*.py")):
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
        as_root = StringCommand('sudo -n env "SSH_CONNECTION=$SSH_CONNECTION"', command("look.survey", arguments))
        return StringCommand(
            "if ! command -v python3 >/dev/null; then cat >/dev/null; echo '{\"python\": false}';",
            "elif ! sudo -n true 2>/dev/null; then cat >/dev/null; echo '{\"sudo\": false}';",
            *("else", as_root, "; fi"),
        )

    def process(self, output: list[str]) -> look.Survey:
        return cast("look.Survey", json.loads(output[-1])) if output else {}


#: What each program answers: what its `main` returns (tests/node/test_small_programs.py).
@overload
def ask(host: Host, program: Literal["engine.sense"], **arguments: Any) -> unit.Judged: ...
@overload
def ask(host: Host, program: Literal["engine.adapters"], **arguments: Any) -> unit.Compared: ...
@overload
def ask(host: Host, program: Literal["door.certificate"], **arguments: Any) -> look.Certificate: ...
@overload
def ask(host: Host, program: Literal["doctor.cables"], **arguments: Any) -> doctor.Cables: ...
@overload
def ask(host: Host, program: Literal["doctor.clock"], **arguments: Any) -> doctor.Now: ...
@overload
def ask(host: Host, program: Literal["doctor.gpu_load"], **arguments: Any) -> doctor.GpuLoad: ...
@overload
def ask(host: Host, program: Literal["doctor.look"], **arguments: Any) -> doctor.DoctorLook: ...
@overload
def ask(host: Host, program: Literal["doctor.rdma"], **arguments: Any) -> doctor.Rdma: ...
@overload
def ask(host: Host, program: Literal["doctor.streams"], **arguments: Any) -> doctor.Streams: ...
@overload
def ask(host: Host, program: Literal["door.drained"], **arguments: Any) -> unit.Drained: ...
@overload
def ask(host: Host, program: Literal["network.rails"], **arguments: Any) -> fabric.FabricTold: ...
@overload
def ask(host: Host, program: Literal["look.files"], **arguments: Any) -> dict[str, look.FileState]: ...
@overload
def ask(host: Host, program: Literal["image.origin"], **arguments: Any) -> dict[str, str]: ...
@overload
def ask(host: Host, program: Literal["unit.journal"], **arguments: Any) -> unit.Journal: ...
@overload
def ask(host: Host, program: Literal["look.look"], **arguments: Any) -> look.Look: ...
@overload
def ask(host: Host, program: Literal["model.proof"], **arguments: Any) -> model.ModelState: ...
@overload
def ask(host: Host, program: Literal["model.mend"], **arguments: Any) -> model.Mended: ...
@overload
def ask(host: Host, program: Literal["secret.modes"], **arguments: Any) -> look.Modes: ...
@overload
def ask(host: Host, program: Literal["monitoring.monitors"], **arguments: Any) -> dict[str, str]: ...
@overload
def ask(host: Host, program: Literal["engine.probe"], **arguments: Any) -> unit.Probed: ...
@overload
def ask(host: Host, program: Literal["unit.served"], **arguments: Any) -> plans.ServedTold: ...
@overload
def ask(host: Host, program: Literal["unit.services"], **arguments: Any) -> unit.Services: ...
@overload
def ask(host: Host, program: Literal["unit.brief"], **arguments: Any) -> unit.UnitLook: ...
@overload
def ask(host: Host, program: Literal["image.vocabulary"], **arguments: Any) -> model.Vocabulary: ...
@overload
def ask(host: Host, program: Literal["image.gpu_trial"], **arguments: Any) -> dict[str, model.GpuTold]: ...
def ask(host: Host, program: str, **arguments: Any) -> Any:
    """What a program says on a node, run as root, in one round trip. Where it can't be run the node has failed."""
    return host.get_fact(Program, **_asked(program, "", arguments))


@overload
def hand(host: Host, stdin: str, program: Literal["door.certificate"], **arguments: Any) -> look.Certificate: ...
@overload
def hand(host: Host, stdin: str, program: Literal["door.keys"], **arguments: Any) -> keys.KeysTold: ...
def hand(host: Host, stdin: str, program: str, **arguments: Any) -> Any:
    """The same, of a program that reads this from its standard input."""
    return host.get_fact(Program, **_asked(program, stdin, arguments))


def ask_or_none(host: Host, program: str, stdin: str = "", **arguments: Any) -> Any | None:
    """The same, of a shape that whoever asks names; None where it can't be run, and the others go on."""
    asked = _asked(program, stdin, arguments)
    return host.get_fact(Program, **asked, _ignore_errors=True)


def _asked(program: str, stdin: str, arguments: Mapping[str, Any]) -> Json:
    sent = _Line(programs() + stdin)
    return {"program": program, "arguments": arguments, "_stdin": sent, "_sudo": True}
