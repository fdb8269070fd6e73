"""The deploys of a bench: the same command as `tandem apply`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bench.process import ROOT
from bench.session import ENVIRONMENT, data_words
from bench.words import why

#: Seconds that a deploy has to end when it is told to.
END_S = 15


def deploy(inventory: str, data: str, knobs: Mapping[str, str], log: Path) -> tuple[str, float]:
    """Why it did not come up, in one line (empty: it did), and the seconds that it took; `log` gets its words."""
    given = [*data_words(data), *data_words(" ".join(f"{name}={value}" for name, value in knobs.items()))]
    argv = [sys.executable, "-m", "bench.child", "-y", inventory, "deploy.py", *given]
    start = time.monotonic()
    with log.open("w") as words:
        process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait()
        except BaseException:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
    took = time.monotonic() - start
    return ("" if code == 0 else why(log.read_text(errors="replace"))), took
