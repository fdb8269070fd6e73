"""An engine behind a cut rail is given up after seconds.

Nothing comes back over a rail that is cut, not even a refusal. LiteLLM can have the kernel ask an idle connection for a
sign of life (AIOHTTP_SO_KEEPALIVE, set beside the container); a request that was sent and never acknowledged is the
other half, and waits for a quarter of an hour without the option that is added here.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from litellm.llms.custom_httpx import http_handler

#: Milliseconds without an acknowledgement after which a connection is broken; a rail that flaps for 5 s is none.
SILENCE_MS = 20_000

_build = http_handler.build_aiohttp_keepalive_socket_factory


def give_up_behind_a_cut_rail() -> None:
    """Connections that LiteLLM makes from now on have the option."""
    http_handler.build_aiohttp_keepalive_socket_factory = _with_option


def _with_option() -> Callable[[Any], socket.socket] | None:
    """LiteLLM's own maker of sockets, with the option."""
    make = _build()

    def factory(address: Any) -> socket.socket:
        assert make
        connection: socket.socket = make(address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_MS)
        return connection

    return factory if make else None
