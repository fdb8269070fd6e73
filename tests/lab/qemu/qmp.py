"""Talking to a running qemu (QMP: one JSON object a line, both ways over a socket)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from tests.lab.shell import LabError

#: Seconds for an answer: an emulated machine has the cores when qemu wants to talk, and one that is taken for
#: off loses its neighbours' carriers.
PATIENCE_S = 300.0


class Silent(LabError):
    """No qemu answers: its machine is off, or goes off just now."""


@contextmanager
def connected(path: Path, patience_s: float | None = PATIENCE_S) -> Iterator[Talk]:
    """A conversation with the qemu at a socket, which has one at a time; `patience_s`: how long it waits for a word.

    Raises Silent where none answers.
    """
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(PATIENCE_S)
        try:
            wire.connect(str(path))
            with wire.makefile("rw") as stream:
                talk = Talk(stream, path)
                talk.begin()
                wire.settimeout(patience_s)
                yield talk
        except OSError as error:
            raise Silent(f"no qemu answers at {path}: {error.strerror or error}; its machine is off") from None


class Talk:
    """One conversation."""

    def __init__(self, stream: TextIO, path: Path) -> None:
        self.stream, self.path = stream, path

    def begin(self) -> None:
        """What has to be said before anything else."""
        self._read()
        self.do("qmp_capabilities")

    def do(self, command: str, **arguments: object) -> Any:
        """One command; returns what qemu answers. Raises LabError with qemu's own words where it refuses."""
        self.stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.stream.flush()
        while True:
            said = self._read()
            if "return" in said:
                return said["return"]
            if "error" in said:
                raise LabError(f"qemu refuses {command}: {said['error']['desc']}")

    def events(self) -> Iterator[dict[str, Any]]:
        """What happens to the machine, until its qemu ends."""
        while line := self.stream.readline():
            said = json.loads(line)
            if "event" in said:
                yield said

    def _read(self) -> dict[str, Any]:
        line = self.stream.readline()
        if not line:
            raise Silent(f"the qemu at {self.path} has ended")
        said: dict[str, Any] = json.loads(line)
        return said
