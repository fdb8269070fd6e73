"""Engines that have failed over the request under way: the router's filters leave them out for it, as long as there are
others. Other requests still go to them.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

#: Their addresses.
addresses: ContextVar[frozenset[str]] = ContextVar("tandem_avoided", default=frozenset())


def avoid(engine: Any) -> None:
    """From now on, as long as the request lasts. `engine`: the router's entry of it."""
    addresses.set(addresses.get() | {str(engine["litellm_params"]["api_base"])})
