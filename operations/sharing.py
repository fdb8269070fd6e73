"""Copies from the head to another node over the fabric: a server on the head that lives only while the copy does."""

from __future__ import annotations

from typing import Any

from pyinfra.api.host import Host

from operations.patience import follow
from operations.plan.plan import Plan
from operations.tether import Tether


def head_of(plan: Plan) -> Host:
    """The head as a pyinfra host."""
    from pyinfra import inventory

    found: Host = inventory.get_host(plan.head.node.name)
    return found


def copy_from_head(plan: Plan, host: Host, what: str, **arguments: Any) -> dict[str, Any]:
    """Fetch `what` (`image` or `model`) on `host` from the head. Raises RuntimeError in the programs' own words."""
    head, node = plan.head.node, plan.of(host.name).node
    # Each worker has a server of its own: nothing is shared that one worker's end could take from another.
    port = plan.knobs.port("share") + 20 + node.index
    server = Tether(
        head_of(plan),
        "share",
        addresses=list(head.rail_addresses),
        port=port,
        peers=list(node.rail_addresses),
        **{**arguments, "store": head.path(plan.knobs.model_store)},
    )
    try:
        if not server.read().get("ready"):
            raise RuntimeError(f"the head could not open port {port} on the fabric; is another program there?")
        client = Tether(
            host,
            "fetch",
            what=what,
            addresses=list(head.rail_addresses),
            port=port,
            **{**arguments, "store": node.path(plan.knobs.model_store)},
        )
        try:
            return follow(host, f"{what} from {head.name}", client)
        finally:
            client.close()
    finally:
        server.close()
