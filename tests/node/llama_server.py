"""The real llama-server on a CPU, with the lab's tiny model, started by the words of the lab's recipe."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from operations.plan.engines import ENGINES
from operations.plan.recipes.formats import load_recipe
from tests.plan.samples import ROOT
from tests.support.ports import free_port

PROGRAM = Path(os.environ.get("LLAMA_SERVER", ROOT / ".venv-llama/llama-server"))
RECIPE = load_recipe("lab-tiny-gguf")
RUNS = ENGINES[RECIPE.engine]
#: Seconds until it has loaded, on a machine that others use.
START_S = 120


class Server:
    """One that runs. `patterns`: what names its model in `folder`; `flags`: in the place of the recipe's."""

    def __init__(self, folder: Path, patterns: list[str], flags: list[str] | None = None) -> None:
        self.port = free_port()
        self.url, self.log = f"http://127.0.0.1:{self.port}", folder / f"log-{self.port}"
        self.statuses: list[int] = []
        words = ["--alias", RECIPE.served_name, "--host", "127.0.0.1", "--port", str(self.port), "--metrics"]
        argv = ["sh", str(ROOT / "files/engine/llama.sh"), str(folder), *patterns, "--", str(PROGRAM), *words]
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*argv, *(flags or RECIPE.flag_argv)], stdout=log, stderr=log)

    def wait(self) -> None:
        """Until it has loaded; what its health and its metrics say meanwhile is kept, the latter where it is 200."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            metrics, health = self.status("/metrics"), self.status("/health")
            self.statuses.append(health)
            assert health == 200 or metrics != 200, "its metrics come before its model is loaded"
            if health == 200:
                return
            time.sleep(0.02)
        raise AssertionError(self.log.read_text()[-3000:])

    def status(self, path: str) -> int:
        """0: nobody listens."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def running(folder: Path, patterns: list[str], flags: list[str] | None = None) -> Iterator[Server]:
    """A server that has loaded, until the end."""
    server = Server(folder, patterns, flags)
    try:
        server.wait()
        yield server
    finally:
        server.kill()
