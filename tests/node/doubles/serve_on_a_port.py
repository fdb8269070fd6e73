"""files/litellm/serve.py, with the port $PORT beside its socket, for clients of a test that know no sockets."""

from __future__ import annotations

import gc
import os
import runpy
import signal
import socket
import sys
from pathlib import Path

sys.path.append(sys.path.pop(0))

import uvicorn


class OnBoth(uvicorn.Server):  # type: ignore[misc]
    """Requests come to the same application."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        own = socket.socket(socket.AF_UNIX)
        Path(self.config.uds).unlink(missing_ok=True)
        own.bind(self.config.uds)
        own.listen(128)
        await super().startup([socket.create_server(("127.0.0.1", int(os.environ["PORT"])), backlog=2048), own])


def tell(*_: object) -> None:
    """How many objects Python looks through no more, into the file $FROZEN_TO; 0: it looks through none at all."""
    Path(os.environ["FROZEN_TO"]).write_text(str(gc.get_freeze_count() * gc.isenabled()))


vars(sys.modules["uvicorn.main"])["Server"] = OnBoth
signal.signal(signal.SIGUSR2, tell)
runpy.run_path(str(Path(__file__).with_name("serve.py")), run_name="__main__")
