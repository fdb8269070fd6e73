"""Running commands on this machine, and saying what goes on."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class LabError(Exception):
    """A lab command can't go on; the text names the thing and the remedy."""


def say(text: str) -> None:
    """One line for the person who waits (stderr: stdout is for what a script reads)."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


def run(*argv: str | Path, check: bool = True, env: dict[str, str] | None = None) -> str:
    """Run a command to its end and return its output; a failure becomes a LabError with its stderr."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    except FileNotFoundError:
        raise LabError(f"`{words[0]}` is not installed; `make lab-packages` installs what the lab needs") from None
    if check and done.returncode != 0:
        tail = "\n  ".join((done.stderr or done.stdout).strip().splitlines()[-12:])
        raise LabError(f"`{' '.join(words[:6])}` ended with {done.returncode}:\n  {tail}")
    return done.stdout


def succeeds(*argv: str | Path) -> bool:
    """Whether the command ends with 0; its output is dropped."""
    words = [str(word) for word in argv]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@contextmanager
def step(text: str) -> Iterator[None]:
    """Say what starts, and how long it took when it has ended."""
    say(f"{text} ...")
    start = time.monotonic()
    yield
    say(f"{text}: done in {time.monotonic() - start:.0f} s")


#: Runs a command that ends when we do, however we do.
TIED = ["setpriv", "--pdeathsig", "KILL"]
#: Runs a command so that it, all that it starts and all that it mounts are gone when it ends or when we do.
CONTAINED = [
    *TIED,
    *("unshare", "--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"),
]


def run_with_progress(argv: Sequence[str | Path], label: str, log: Path, env: dict[str, str] | None = None) -> None:
    """Run something long, its output in `log`, with a line every 15 s that shows where it is.

    It is contained: a mmdebstrap that outlived a killed `up` would leave /dev mounted below a folder to be deleted.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with log.open("w") as out:
        words = [*CONTAINED, *(str(word) for word in argv)]
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=env)
        try:
            while True:
                try:
                    code = process.wait(timeout=15)
                    break
                except subprocess.TimeoutExpired:
                    last = _last_line(log)
                    say(f"  {label}: {time.monotonic() - start:.0f} s, {last[:90]}")
        except BaseException:
            process.kill()
            process.wait()
            raise
    if code != 0:
        tail = "\n  ".join(log.read_text(errors="replace").strip().splitlines()[-15:])
        raise LabError(f"{label} ended with {code}; the whole log is {log}:\n  {tail}")


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "(no output yet)"
