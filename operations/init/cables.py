"""Which cable goes where: what the nodes' QSFP ports say, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from operations.init.seen import Seen

PORT = "QSFP port (beside the network socket)"


def cables(nodes: Sequence[tuple[str, Seen]]) -> list[str]:
    """Lines for the owner: how the nodes are wired, or what to plug in. `nodes`: name and what was seen, the head
    first.
    """
    if len(nodes) < 2:
        return ["One Spark needs no QSFP cable."]
    if without := [name for name, seen in nodes if not seen.ports]:
        return [
            f"No QSFP port shows on {', '.join(without)}: a cable that is out may take the interfaces along."
            f" {_plug([name for name, _ in nodes])}"
        ]
    lit = {name: [port for port, carrier in seen.ports.items() if carrier] for name, seen in nodes}
    if dark := [name for name, ports in lit.items() if not ports]:
        return [f"No cable is live on {', '.join(dark)}. {_plug(list(lit))}"]
    at = "; ".join(f"{name}: port {' and '.join(sorted(ports))}" for name, ports in lit.items())
    if len(nodes) == 2:
        return [f"Cable: live at both ends ({at})."]
    if len(nodes) == 3 and all(len(ports) > 1 for ports in lit.values()):
        return [f"Cables: live on both ports of all three, a ring or a switch ({at})."]
    return [f"Cables: live on every node ({at}): they go to one switch."]


def _plug(names: Sequence[str]) -> str:
    if len(names) == 2:
        return f"Plug one cable from a {PORT} of {names[0]} into one of {names[1]}; either of a node's two will do."
    if len(names) == 3:
        return (
            f"Plug a cable from each into a switch; or three cables without one: {names[0]} to {names[1]},"
            f" {names[1]} to {names[2]}, {names[2]} to {names[0]}."
        )
    return f"Plug one cable from a {PORT} of each into the same switch."
