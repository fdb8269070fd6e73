"""When an engine will be there again, as far as it was seen."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.node.shipped import part


@pytest.mark.parametrize("was_gone", [True, False])
def test_what_nobody_saw_is_not_how_long_it_takes(monkeypatch: pytest.MonkeyPatch, was_gone: bool) -> None:
    """Another LiteLLM has said that it is gone, and has ended before it came back."""
    comes_back: Any = part("litellm", "comes_back")
    monkeypatch.setattr(comes_back, "LOOK_S", 0.01)
    address = f"comes back {was_gone}"
    comes_back.shared.incidents.put(int((time.monotonic() - 600) * 1000), b"gone", address.encode())
    looks = iter([False, True] if was_gone else [True])

    async def lives() -> bool:
        return next(looks)

    async def events() -> None:
        comes_back.gone(address, lives)
        await comes_back._watched[address]

    asyncio.run(events())
    usual = comes_back.shared.incidents.get(b"usual", address.encode())
    assert usual == (pytest.approx(600, abs=2) if was_gone else None)
    assert comes_back._since(address) is None
