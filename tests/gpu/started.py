"""Programs that answer on a port: started, waited for, ended."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from operations.plan.config.refusal import Finding, Refusal


@dataclass(frozen=True)
class Program:
    """`asks`: the URL that says 200 when it is ready."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    asks: str
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"


def words(command: str) -> list[str]:
    """A command as it was given on the command line, as words."""
    return shlex.split(command)


@dataclass(frozen=True)
class Up:
    """Of each program either the seconds until it was ready, or why it is not."""

    after: Mapping[str, float]
    why_not: Mapping[str, str]


@contextmanager
def started(programs: Sequence[Program], seconds: float) -> Iterator[Up]:
    """All of them, side by side; what does not come up stops no other. All are ended at the end. Raises Refusal where
    one would be taken for another that runs already.
    """
    for program in programs:
        if _answers(program.asks):
            problem = f"{program.asks} answers already, where {program.name} shall be"
            raise Refusal(Finding(program.name, problem, "end what listens there"))
    began, processes = time.monotonic(), dict[str, subprocess.Popen[bytes]]()
    after, why_not = dict[str, float](), dict[str, str]()
    try:
        for program in programs:
            processes[program.name] = _start(program)
        while waiting := [each for each in programs if each.name not in (*after, *why_not)]:
            time.sleep(0.5)
            now = time.monotonic() - began
            for program in waiting:
                if _answers(program.asks):
                    after[program.name] = now
                    print(f"{program.name} is up after {now:.0f} s", flush=True)
                elif processes[program.name].poll() is not None or now > seconds:
                    why_not[program.name] = last_words(program.log)
                    print(f"{program.name} is not up after {now:.0f} s: {why_not[program.name]}", flush=True)
        yield Up(after, why_not)
    finally:
        for process in processes.values():
            _end(process)


def _start(program: Program) -> subprocess.Popen[bytes]:
    program.folder.mkdir(parents=True, exist_ok=True)
    with program.log.open("wb") as log:
        return subprocess.Popen(
            program.argv,
            env={**os.environ, **program.environment},
            cwd=program.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def last_words(log: Path) -> str:
    """The last line that names an error which is a cause, or else the last line."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\w+Error: ", line) and "Engine core init" not in line]
    return (errors or lines or ["it has said nothing"])[-1].strip()[:300]


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """With everything that it has started: vLLM's ranks are processes of its own session."""
    for name, seconds in ((signal.SIGTERM, 20.0), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(process.pid, name)
            process.wait(seconds)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
