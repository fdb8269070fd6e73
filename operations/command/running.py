"""A run of pyinfra on the owner's nodes: the same programs that `make` and pyinfra itself run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from operations.command.at import ROOT, At

INTERRUPTED = 130


def argv(at: At, program: str, *words: str) -> list[str]:
    """`program`: a file of Tandem's. Root is needed everywhere, whether the owner's group data says so or not."""
    config, file = (str(ROOT / name) for name in ("config.py", program))
    run = [sys.executable, "-m", "operations.command.pyinfra_run", "--sudo"]
    return [*run, "--config", config, str(at.inventory), file, *words]


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Environment of a process that finds Tandem's own modules, whatever folder it runs in."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    # What a bench has measured is the owner's, and not the package's.
    runs = {} if in_clone() else {"BENCH_RUNS": os.environ.get("BENCH_RUNS") or str(Path("bench-runs").absolute())}
    return {**os.environ, **runs, "PYTHONPATH": path, "PYINFRA_PROGRESS": "off", **more}


def deploy(at: At, *words: str) -> int:
    """Runs the deploy; returns its exit code."""
    return wait(argv(at, "deploy.py", *words, *at.data_words))


def query(
    at: At,
    name: str,
    model: str = "",
    more: Mapping[str, str] | None = None,
    stdout: int | None = None,
    **data: str | bool,
) -> int:
    """Runs a verb that asks: pyinfra's own words are shown when it fails, the verb's notes always.

    `data`: what the verb reads as `_name`, true ones as 1, empty ones not at all; `more`: its environment; `stdout`: a
    file for what it prints.
    """
    with tempfile.TemporaryFile("w+") as words:
        code = wait(verb(at, name, model, **data), stdout=stdout, stderr=words.fileno(), more=more)
        words.seek(0)
        for line in words:
            if code or line.startswith("note: "):
                sys.stderr.write(line)
    return code


def change(at: At, name: str, model: str = "", **data: str | bool) -> int:
    """Runs a verb that changes nodes; all of its words are shown."""
    return wait(verb(at, name, model, **data))


def answer(at: At, name: str, more: Mapping[str, str] | None = None, **data: str | bool) -> tuple[int, str]:
    """What a verb prints, with its exit code; its complaints are shown when it fails."""
    with tempfile.TemporaryFile("w+") as words:
        code = query(at, name, "", more, words.fileno(), **data)
        words.seek(0)
        return code, words.read()


def last_line(words: list[str]) -> tuple[int, str]:
    """The last line of what a program says on standard error, and its exit code; all of it is shown when it fails."""
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as told:
        code = wait(words, stdout=told.fileno(), stderr=said.fileno())
        said.seek(0)
        lines = [line.rstrip() for line in said if line.strip()]
    if code:
        print("\n".join(lines), file=sys.stderr)
    return code, lines[-1] if lines else ""


def wait(
    words: list[str], stdout: int | None = None, stderr: int | None = None, more: Mapping[str, str] | None = None
) -> int:
    """Runs a program to its end; 130 where somebody has ended it, whatever the program says of that.

    `more`: its environment beside ours; `stdout` and `stderr`: files for what it prints.
    """
    with subprocess.Popen(words, stdout=stdout, stderr=stderr, env=environment(more or {})) as process:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            # It has got the same signal, and puts its things in order.
            process.wait()
            return INTERRUPTED
    return code if code >= 0 else 128 - code


def in_clone() -> bool:
    """Whether Tandem runs from its clone, where the lab and the tests are."""
    return (ROOT / "tests/lab").is_dir() and Path(ROOT / "Makefile").is_file()


def verb(at: At, name: str, model: str, **data: str | bool) -> list[str]:
    """The command of a file in operations/verbs."""
    given = {"_model": model, **{f"_{key}": value for key, value in data.items()}}
    words = [f"{key}={'1' if value is True else value}" for key, value in given.items() if value]
    flags = [word for each in words for word in ("--data", each)]
    return argv(at, f"operations/verbs/{name}.py", "-y", *flags, *at.data_words)
