"""What was seen on the nodes -> what it means. Pure: looks in, symptoms out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from operations.plan.doctor import cables, certificate, clock, gpu, kernel_log, machine, prefixes, rails, software
from operations.plan.doctor.symptom import BAD, Seen, Symptom, gathered


def diagnose(seen: Seen, ports: Mapping[str, Mapping[int, str]]) -> list[Symptom]:
    """All symptoms, the worst first. `ports`: by node, what Tandem wants to listen on there, with the knob of each."""
    return gathered(
        chain(
            _dead(seen),
            gpu.judge(seen),
            rails.judge(seen),
            cables.judge(seen),
            machine.judge(seen, ports),
            kernel_log.judge(seen),
            software.judge(seen),
            clock.judge(seen),
            certificate.judge(seen),
            prefixes.judge(seen),
            seen.failed(),
        )
    )


def figures(seen: Seen) -> list[str]:
    """What was found and measured, a line each."""
    topics = (cables, rails, gpu, machine, software)
    return [line for topic in topics for line in topic.figures(seen)]


def _dead(seen: Seen) -> Iterator[Symptom]:
    for node, absence in seen.dead.items():
        yield Symptom(BAD, (node,), absence.why, "nothing can be said of it", absence.remedy, absence.code)
