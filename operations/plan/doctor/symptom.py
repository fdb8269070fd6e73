"""One thing that the doctor has seen: where, what it means, what helps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from operations.plan.absence import Absence

#: The service suffers from it, or will.
BAD = "bad"
#: It may be meant, or cost little.
REMARK = "remark"
#: Could not be looked at on that machine; `seen` says why.
UNASKED = "not asked"
SEVERITIES = (BAD, REMARK, UNASKED)

Look = dict[str, Any]


@dataclass(frozen=True)
class Symptom:
    """`where` are node names."""

    severity: str
    where: tuple[str, ...]
    seen: str
    means: str = ""
    remedy: str = ""


@dataclass
class Seen:
    """All that was asked, by node. `looks`: operations/node/doctor/look.py; `dead`: those that can't be asked.

    `rails`: the netdevs that the plan would take; `needs_rails`: the topology has ranks or engines on several nodes.
    `clocks`: {offset_s, doubt_s} against this machine. `cables`: cables.main. `mtu`: what did not get through.
    `streams`: {node, peer, device, peer_device, way, gbit_s | problem}; `rdma` the same, or {node, peer, missing}.
    `loads`: gpu_load.main. `skipped`: what the owner left out.
    """

    looks: dict[str, Look] = field(default_factory=dict)
    dead: dict[str, Absence] = field(default_factory=dict)
    rails: dict[str, tuple[str, ...]] = field(default_factory=dict)
    needs_rails: bool = True
    wanted_mtu: int = 9000
    clocks: dict[str, dict[str, float]] = field(default_factory=dict)
    cables: dict[str, Look] = field(default_factory=dict)
    mtu: dict[str, list[str]] = field(default_factory=dict)
    streams: list[dict[str, Any]] = field(default_factory=list)
    rdma: list[dict[str, Any]] = field(default_factory=list)
    loads: dict[str, Look] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()

    def topic(self, name: str) -> Iterator[tuple[str, Any]]:
        """What each node says of a topic; those that could not look at it are left out."""
        for node, look in self.looks.items():
            if name in look and not _failed(look[name]):
                yield node, look[name]

    def failed(self) -> Iterator[Symptom]:
        """Topics that a node could not look at."""
        for node, look in self.looks.items():
            for topic, told in look.items():
                if _failed(told):
                    yield Symptom(UNASKED, (node,), f"{topic}: {told['failed']}")


def _failed(told: Any) -> bool:
    return isinstance(told, dict) and "failed" in told


def differing(values: Mapping[str, str]) -> str:
    """`spark-1 has A, spark-2 and spark-3 have B` where nodes that tell something tell different things; else empty."""
    by_value: dict[str, list[str]] = {}
    for node, value in values.items():
        if value:
            by_value.setdefault(value, []).append(node)
    if len(by_value) < 2:
        return ""
    return ", ".join(
        f"{' and '.join(nodes)} {'has' if len(nodes) == 1 else 'have'} {value}" for value, nodes in by_value.items()
    )


def gathered(symptoms: Iterable[Symptom]) -> list[Symptom]:
    """The worst first; what is the same on several nodes once."""
    merged: dict[tuple[str, str, str, str], Symptom] = {}
    for each in symptoms:
        key = (each.severity, each.seen, each.means, each.remedy)
        before = merged.get(key)
        where = tuple(dict.fromkeys((*(before.where if before else ()), *each.where)))
        merged[key] = replace(each, where=where)
    return sorted(merged.values(), key=lambda each: SEVERITIES.index(each.severity))
