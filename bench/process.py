"""The client's process, here or on the head: orders to it, and what it tells."""

from __future__ import annotations

import base64
import io
import json
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.client.shapes import Done, Line, Told
from operations.plan.config.refusal import Finding, Refusal

ROOT = Path(__file__).parents[1]
#: Reads one line, the client's sources, and runs them from memory.
_BOOTSTRAP = (
    "import base64,os,runpy,sys;"
    "fd=os.memfd_create('tandem');"
    "os.write(fd,base64.b64decode(sys.stdin.readline()));"
    "sys.path.insert(0,f'/proc/self/fd/{fd}');"
    "runpy.run_module('bench.client',run_name='__main__')"
)


class Client:
    """Runs until it is left; Refusal where it ends before that."""

    def __init__(self, argv: Sequence[str], first_line: str = "") -> None:
        self._process = subprocess.Popen(
            argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        if first_line:
            self._write(first_line)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        # Not asked to: it may be in the midst of minutes of streams.
        self._process.kill()
        self._process.communicate()

    def order(self, do: str, each: Callable[[Told], None] = lambda _: None, **arguments: Any) -> Done:
        """What came of an order; `each` gets the requests as they are told."""
        self._write(json.dumps({"do": do, **arguments}) + "\n")
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told: Line = json.loads(line)
            if "done" in told:
                return told["done"]
            each(told["request"])
        raise self._gone()

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None

    def _gone(self) -> Refusal:
        problem = f"the client has ended by itself ({self._process.wait()})"
        return Refusal(Finding("bench", problem, "its last words are above; run the same again: it goes on"))


def here() -> Client:
    """On this machine."""
    return Client([sys.executable, "-m", "bench.client"])


def on_head(ssh: Sequence[str], image: str) -> Client:
    """On the head, in the proxy's image: it has Python and aiohttp. `ssh` logs in there."""
    inside = ["sudo", "-n", "docker", "run", "--rm", "-i", "--network", "host", "--entrypoint", "python3", image]
    return Client([*ssh, shlex.join([*inside, "-c", _BOOTSTRAP])], _sources())


def _sources() -> str:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in (ROOT / "bench/__init__.py", *sorted((ROOT / "bench/client").glob("*.py"))):
            archive.write(file, str(file.relative_to(ROOT)))
    return base64.b64encode(buffer.getvalue()).decode() + "\n"
