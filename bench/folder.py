"""Reading and writing a run's folder. What was cut or changed is refused in one line."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from bench.records import FORMAT, Folder, Record, Request, Run, Step
from operations.plan.config.refusal import Finding, Refusal

R = TypeVar("R", bound=Record)
_AGAIN = "measure anew, or take the whole folder from where it was measured"


def read(path: Path) -> tuple[Run, list[Step], dict[str, list[Request]]]:
    """A run, the steps that are whole, and their requests by step, as they ended.

    A run that was broken off has requests of a step that is not there, the last of them half a line, perhaps: those
    are left out. Raises Refusal where anything else is missing.
    """
    run, steps = _run(path), _lines(Folder(path).steps, Step)
    by_step: dict[str, list[Request]] = {step.name: [] for step in steps}
    if len(by_step) < len(steps):
        raise _cut(Folder(path).steps, "a step is there twice")
    for request in _lines(Folder(path).requests, Request):
        if request.step in by_step:
            by_step[request.step].append(request)
    for step in steps:
        if len(by_step[step.name]) != step.requests:
            raise _cut(
                Folder(path).requests,
                f"step {step.name} had {step.requests} requests, {len(by_step[step.name])} are there",
            )
    return run, steps, by_step


def write_run(folder: Folder, run: Run) -> None:
    """Whole or not at all."""
    folder.path.mkdir(parents=True, exist_ok=True)
    new = folder.run.with_suffix(".new")
    new.write_text(run.model_dump_json(indent=2) + "\n")
    new.replace(folder.run)


def mend(folder: Folder) -> set[str]:
    """Take away what a broken run has left behind its last whole step; the names of the steps that are whole."""
    if not folder.run.exists():
        return set()
    _, steps, by_step = read(folder.path)
    _rewrite(folder.steps, steps)
    _rewrite(folder.requests, [request for step in steps for request in by_step[step.name]])
    return {step.name for step in steps}


def _rewrite(file: Path, records: list[Step] | list[Request]) -> None:
    new = file.with_suffix(".new")
    new.write_text("".join(f"{record.model_dump_json()}\n" for record in records))
    new.replace(file)


def _run(path: Path) -> Run:
    file = Folder(path).run
    try:
        text = file.read_text()
    except OSError:
        problem = "there is no run.json in it" if path.is_dir() else "there is no such folder"
        raise Refusal(Finding(str(path), problem, "name a folder that `tandem bench` has made")) from None
    try:
        found = json.loads(text)
        if isinstance(found, dict) and found.get("format") != FORMAT:
            problem = f"its format is {found.get('format')}, this Tandem reads {FORMAT}"
            raise Refusal(Finding(str(file), problem, "use the Tandem that has measured it"))
        return Run.model_validate_json(text)
    except (ValueError, ValidationError):
        raise _cut(file, "it is no whole run.json") from None


def _lines(file: Path, kind: type[R]) -> list[R]:
    """A line each. Half a line at the end is what a run leaves that was killed."""
    try:
        text = _bytes(file).decode(errors="replace")
    except FileNotFoundError:
        return []
    except (lzma.LZMAError, EOFError):
        raise _cut(file.with_name(f"{file.name}.xz"), "it is no whole .xz") from None
    found = []
    *whole, _half = text.split("\n")
    for number, line in enumerate(whole, 1):
        try:
            found.append(kind.model_validate_json(line))
        except ValidationError:
            raise _cut(file, f"line {number} is not whole") from None
    return found


def _bytes(file: Path) -> bytes:
    """As it is, or packed beside where it would be, as runs are kept for long."""
    packed = file.with_name(f"{file.name}.xz")
    return lzma.decompress(packed.read_bytes()) if not file.exists() and packed.exists() else file.read_bytes()


def _cut(file: Path, problem: str) -> Refusal:
    return Refusal(Finding(str(file), f"was cut or changed: {problem}", _AGAIN))
