"""Clocks: whether they agree, and who keeps them."""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.config.kind import Kind
from operations.plan.doctor.symptom import BAD, REMARK, UNASKED, Seen, Symptom, found

#: Seconds between nodes, besides what a round trip hides.
APART_S = 2.0
#: Seconds between the nodes and this machine, which may be wrong itself.
AWAY_S = 10.0
_DRIFTS = "the clock drifts away from the other nodes'"
UNSYNCHRONISED = Kind(
    "clock-unsynchronised",
    "{service} runs, and the clock is not synchronised",
    "it drifts, and certificates, tokens and logs go by it",
    "timedatectl timesync-status (or chronyc sources): can it reach a server?",
)
STOPPED = Kind(
    "clock-service-stopped", "the clock service {service} is stopped", _DRIFTS, "sudo systemctl enable --now {service}"
)
NO_SERVICE = Kind("clock-no-service", "no clock service is installed", _DRIFTS, "sudo apt install systemd-timesyncd")
APART = Kind(
    "clock-apart",
    "the clock of {ahead} is {seconds:.1f} s ahead of that of {behind}",
    "certificates and tokens of one fail on the other, and logs can't be compared",
    "sudo timedatectl set-ntp true on both",
)
AWAY = Kind(
    "clock-away",
    "its clock is {seconds:.1f} s {ahead_of} this machine's",
    "one of the two is wrong",
    "timedatectl on both",
)


def judge(seen: Seen) -> Iterator[Symptom]:
    """The nodes among each other, and against this machine."""
    for node, told in seen.topic(lambda look: look.get("clock")):
        if told["running"]:
            if told["synchronized"] is False:
                yield found(UNSYNCHRONISED, REMARK, node, service=told["running"][0])
        elif told["stopped"]:
            yield found(STOPPED, BAD, node, service=told["stopped"][0])
        elif told["spared"]:
            yield Symptom(
                UNASKED, (node,), f"who keeps the clock: {told['spared'][0]} leaves it to this machine's host"
            )
        else:
            yield found(NO_SERVICE, REMARK, node)
    yield from _skew(seen)


def _skew(seen: Seen) -> Iterator[Symptom]:
    if not seen.clocks:
        return
    low = min(seen.clocks, key=lambda node: seen.clocks[node]["offset_s"])
    high = max(seen.clocks, key=lambda node: seen.clocks[node]["offset_s"])
    apart = seen.clocks[high]["offset_s"] - seen.clocks[low]["offset_s"]
    if apart > APART_S + seen.clocks[high]["doubt_s"] + seen.clocks[low]["doubt_s"]:
        yield found(APART, BAD, low, high, ahead=high, seconds=apart, behind=low)
        return
    for node, clock in seen.clocks.items():
        if abs(clock["offset_s"]) > AWAY_S + clock["doubt_s"]:
            ahead_of = "ahead of" if clock["offset_s"] > 0 else "behind"
            yield found(AWAY, REMARK, node, seconds=abs(clock["offset_s"]), ahead_of=ahead_of)
