"""Clocks: whether they agree, and who keeps them."""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.doctor.symptom import BAD, REMARK, UNASKED, Seen, Symptom

#: Seconds between nodes, besides what a round trip hides.
APART_S = 2.0
#: Seconds between the nodes and this machine, which may be wrong itself.
AWAY_S = 10.0


def judge(seen: Seen) -> Iterator[Symptom]:
    """The nodes among each other, and against this machine."""
    for node, told in seen.topic("clock"):
        if told["running"]:
            if told["synchronized"] is False:
                means = "it drifts, and certificates, tokens and logs go by it"
                yield Symptom(
                    REMARK,
                    (node,),
                    f"{told['running'][0]} runs, and the clock is not synchronised",
                    means,
                    "timedatectl timesync-status (or chronyc sources): can it reach a server?",
                )
        elif told["stopped"]:
            name = told["stopped"][0]
            means = "the clock drifts away from the other nodes'"
            yield Symptom(
                BAD, (node,), f"the clock service {name} is stopped", means, f"sudo systemctl enable --now {name}"
            )
        elif told["spared"]:
            yield Symptom(
                UNASKED, (node,), f"who keeps the clock: {told['spared'][0]} leaves it to this machine's host"
            )
        else:
            means = "the clock drifts away from the other nodes'"
            remedy = "sudo apt install systemd-timesyncd"
            yield Symptom(REMARK, (node,), "no clock service is installed", means, remedy)
    yield from _skew(seen)


def _skew(seen: Seen) -> Iterator[Symptom]:
    if not seen.clocks:
        return
    low = min(seen.clocks, key=lambda node: seen.clocks[node]["offset_s"])
    high = max(seen.clocks, key=lambda node: seen.clocks[node]["offset_s"])
    apart = seen.clocks[high]["offset_s"] - seen.clocks[low]["offset_s"]
    if apart > APART_S + seen.clocks[high]["doubt_s"] + seen.clocks[low]["doubt_s"]:
        yield Symptom(
            BAD,
            (low, high),
            f"the clock of {high} is {apart:.1f} s ahead of that of {low}",
            "certificates and tokens of one fail on the other, and logs can't be compared",
            "sudo timedatectl set-ntp true on both",
        )
        return
    for node, clock in seen.clocks.items():
        if abs(clock["offset_s"]) > AWAY_S + clock["doubt_s"]:
            yield Symptom(
                REMARK,
                (node,),
                f"its clock is {abs(clock['offset_s']):.1f} s {'ahead of' if clock['offset_s'] > 0 else 'behind'} "
                "this machine's",
                "one of the two is wrong",
                "timedatectl on both",
            )
