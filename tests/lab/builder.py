"""A Docker daemon of the lab's own, for building its images; it lives only while it builds."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab import mounts, processes
from tests.lab.settings import CACHE, HOME
from tests.lab.shell import LabError, succeeds

ROOT = CACHE / "builder"
RUN = HOME / "builder-run"
SOCKET = f"unix://{RUN}/docker.sock"


def docker(*argv: str | Path) -> list[str | Path]:
    """A docker command line for the lab's own daemon."""
    return ["docker", "-H", SOCKET, *argv]


@contextmanager
def daemon() -> Iterator[None]:
    """Run the daemon for the body of the `with`, and end it afterwards, whatever happened."""
    clean_up()
    RUN.mkdir(parents=True, exist_ok=True)
    with (HOME / "builder.log").open("w") as log:
        process = subprocess.Popen(
            # No bridge and no iptables: builds use nothing but files, and the host's firewall stays as it is.
            [
                "dockerd",
                "--data-root",
                str(ROOT),
                "--exec-root",
                str(RUN / "exec"),
                "-H",
                SOCKET,
                "--pidfile",
                str(RUN / "pid"),
                "--bridge=none",
                "--iptables=false",
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 60
        while not succeeds(*docker("info")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise LabError(f"the lab's dockerd did not start; see {HOME / 'builder.log'}")
            time.sleep(0.3)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
        clean_up()


def clean_up() -> None:
    """End a daemon that a crashed build left, and let go of its mounts."""
    processes.kill(lambda argv: any(word == f"{RUN}/exec" or word.startswith(f"{RUN}/exec/") for word in argv))
    for folder in (RUN, ROOT):
        mounts.release(folder)
