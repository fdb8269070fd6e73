"""The door's program, composed: LiteLLM's application, and around it what Tandem adds. serve.py runs it.

It is also where LiteLLM finds Tandem's callbacks, by the names below (`application.NAME` in its configuration). LiteLLM
loads the file once more for each of them, so nothing is begun here: what a callback and a layer share is theirs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import door_log
import pulse
from balanced import WithTicket
from balanced import callback as balanced
from door import Door
from door import callback as door
from engines import known
from last_resort import callback as last_resort
from links import give_up_behind_a_cut_rail
from litellm.proxy import proxy_server
from passthrough import Passthrough
from pulse import UnderWay
from standby import callback as standby
from unavailable import WithRetryAfter
from unavailable import callback as unavailable

__all__ = ["Application", "balanced", "door", "last_resort", "standby", "unavailable"]


class Application:
    """The outermost layer sees each request first, and each byte of an answer last."""

    def __init__(self) -> None:
        under_way = UnderWay(WithRetryAfter(_with_cors(Passthrough(proxy_server.app))))
        secrets, used = os.environ.get("TANDEM_SECRETS", "/secrets"), os.environ.get("TANDEM_USED", "/used")
        self._layers = Door(WithTicket(under_way), os.environ["LITELLM_MASTER_KEY"], Path(secrets), Path(used))
        self._under_way = under_way

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        else:
            await self._layers(scope, receive, send)

    async def _live(self, scope: Any, receive: Any, send: Any) -> None:
        """LiteLLM's start and end, once for each process; what runs beside it begins with it."""

        async def started(message: Any) -> None:
            if message["type"] == "lifespan.startup.complete":
                # What LiteLLM says of its configuration is said in full; from now on errors may quote clients.
                door_log.install()
            await send(message)

        give_up_behind_a_cut_rail()
        known.watch()
        pulse.begin(self._under_way)
        await proxy_server.app(scope, receive, started)


def _with_cors(layer: Any) -> Any:
    """A page in a browser is told by LiteLLM's own middleware whom it may ask."""
    for each in proxy_server.app.user_middleware:
        if each.cls.__name__ == "CORSMiddleware":
            layer = each.cls(layer, *each.args, **each.kwargs)
    return layer
