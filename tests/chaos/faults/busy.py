"""An engine that has much to do: it is not ill."""

from __future__ import annotations

from tests.chaos.fault import BALANCED, Fault
from tests.chaos.prefilling import long_prompt

BUSY = [
    Fault(
        "a prompt whose prefill takes five times the canary's patience",
        long_prompt,
        "answered once and right; nothing is killed",
        ("replicas", "solo", *BALANCED),
        "nothing",
        takes_minutes=True,
    ),
]
