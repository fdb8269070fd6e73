"""The canary beside programs of an older plan."""

from __future__ import annotations

from operations.runner import successors
from tests.node.shipped import part


def test_a_proxy_of_an_older_plan_is_renewed_before_it_is_killed() -> None:
    """A deploy waits for the LiteLLM before it, in which it is nowhere to be asked."""
    assert part("canary", "proxy").START_S > successors.START_S + 30
