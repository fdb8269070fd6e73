"""One thing that the doctor has seen: where, what it means, what helps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from operations.plan.absence import Absence
from operations.plan.config.kind import Kind
from operations.wire.doctor import (
    Cables,
    DoctorLook,
    GpuLoad,
    Measured,
    Skew,
)

A = TypeVar("A")
#: The service suffers from it, or will.
BAD = "bad"
#: It may be meant, or cost little.
REMARK = "remark"
#: Could not be looked at on that machine; `seen` says why.
UNASKED = "not asked"
SEVERITIES = (BAD, REMARK, UNASKED)


@dataclass(frozen=True)
class Symptom:
    """`where` are node names. `code`: of its kind; empty where something could not be looked at."""

    severity: str
    where: tuple[str, ...]
    seen: str
    means: str = ""
    remedy: str = ""
    code: str = ""


def found(kind: Kind, severity: str, /, *where: str, **data: object) -> Symptom:
    """One of a kind. `where`: names of nodes; `data`: what the kind's texts name."""
    seen, means, remedy = (text.format(**data) for text in (kind.seen, kind.means, kind.remedy))
    return Symptom(severity, where, seen, means, remedy, kind.code)


@dataclass
class Seen:
    """All that was asked, by node. `looks`: operations/node/doctor/look.py; `dead`: those that can't be asked.

    `rails`: the netdevs that the plan would take; `needs_rails`: the topology has ranks or engines on several nodes;
    `wants_rdma`: NCCL would use RDMA over them. `clocks`: {offset_s, doubt_s} against this machine. `cables`:
    cables.main. `mtu`: what did not get through. `streams`: {node, peer, device, peer_device, way, gbit_s | problem};
    `rdma` the same, or {node, peer, missing}. `loads`: gpu_load.main. `skipped`: what the owner left out.
    """

    looks: dict[str, DoctorLook] = field(default_factory=dict)
    dead: dict[str, Absence] = field(default_factory=dict)
    rails: dict[str, tuple[str, ...]] = field(default_factory=dict)
    needs_rails: bool = True
    wants_rdma: bool = True
    wanted_mtu: int = 9000
    clocks: dict[str, Skew] = field(default_factory=dict)
    cables: dict[str, Cables] = field(default_factory=dict)
    mtu: dict[str, list[str]] = field(default_factory=dict)
    streams: list[Measured] = field(default_factory=list)
    rdma: list[Measured] = field(default_factory=list)
    loads: dict[str, GpuLoad] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()

    def topic(self, read: Callable[[DoctorLook], A | None]) -> Iterator[tuple[str, A]]:
        """Each node with what `read` takes out of its look; without those that could not look at that."""
        for node, look in self.looks.items():
            if (told := read(look)) is not None and not _failed(told):
                yield node, told

    def failed(self) -> Iterator[Symptom]:
        """Topics that a node could not look at."""
        for node, look in self.looks.items():
            for topic, told in cast("Mapping[str, Any]", look).items():
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
