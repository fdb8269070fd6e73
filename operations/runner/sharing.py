"""Copies from node to node over the fabric: servers that live only while the copies do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gevent.event import Event
from pyinfra.api.host import Host

from operations.node.copy import fetch, share
from operations.plan.cluster.nodes import Node
from operations.plan.plan import Plan
from operations.runner.patience import follow
from operations.runner.tether import Tether
from operations.wire.model import Copied, Worker


class Copies:
    """Those of one run that are going on."""

    def __init__(self) -> None:
        #: By what is copied (`image`, or `model` and which): how many go on, and whether none does.
        self._going_on: dict[str, int] = {}
        self._none: dict[str, Event] = {}

    def from_head(self, plan: Plan, host: Host, what: str, **arguments: Any) -> Copied:
        """Fetch `what` (`image` or `model`) on `host` from the head. Raises RuntimeError in the programs' own words."""
        return self.from_node(plan, plan.head.node, host, what, **arguments)

    def from_node(self, plan: Plan, source: Node, host: Host, what: str, **arguments: Any) -> Copied:
        """The same from any node (`kernels` too)."""
        node = plan.of(host.name).node
        # Each worker has a server of its own: nothing is shared that one worker's end could take from another.
        port = plan.knobs.copy_port(node.index)
        addresses = [address for _, address in node.toward(source)]
        server = Tether(
            host.state.inventory.get_host(source.name),
            share.main,
            addresses=addresses,
            port=port,
            peers=[address for _, address in source.toward(node)],
            **{**arguments, "store": source.path(plan.knobs.model_store)},
        )
        try:
            if not server.read().get("ready"):
                raise RuntimeError(f"{source.name} could not open port {port} on the fabric; is another program there?")
            client = Tether(
                host,
                fetch.main,
                what=what,
                addresses=addresses,
                port=port,
                **{**arguments, "store": node.path(plan.knobs.model_store)},
                **(_among_workers(plan, node, arguments) if what == "model" else {}),
            )
            try:
                with self._all_together(" ".join(map(str, (what, *arguments.values())))):
                    return follow(host, f"{what} from {source.name}", client)
            finally:
                client.close()
        finally:
            server.close()

    @contextmanager
    def _all_together(self, what: str) -> Iterator[None]:
        """Who has everything stays until nobody is left who might take something from it."""
        none = self._none.setdefault(what, Event())
        self._going_on[what] = self._going_on.get(what, 0) + 1
        none.clear()
        try:
            yield
        finally:
            self._going_on[what] -= 1
            if not self._going_on[what]:
                none.set()
        if what.startswith("model"):
            none.wait()


def _among_workers(plan: Plan, node: Node, place: Mapping[str, Any]) -> dict[str, Any]:
    """Where a worker hands on what it has of the files of this `place`, and where it finds what the others have."""
    workers = [
        each.node
        for each in plan.serving
        if not each.node.is_head
        and any(files.place == place for model in plan.on(each.node.name) for files in model.recipe.models)
    ]

    def served_at(each: Node, addresses: Sequence[str]) -> Worker:
        port = plan.knobs.copy_port(each.index)
        return {"addresses": list(addresses), "port": port, "part": workers.index(each)}

    others = [each for each in workers if each is not node]
    return {
        "here": served_at(node, node.rail_addresses),
        "peers": [served_at(each, [address for _, address in node.toward(each)]) for each in others],
    }
