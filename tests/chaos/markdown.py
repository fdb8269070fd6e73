"""The fault matrix as a page of the documentation."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.chaos.fault import EVERY
from tests.chaos.faults import FAULTS, NOT_HERE
from tests.chaos.row import Row

HEAD = """# The fault matrix

What `make chaos` saw on the lab: two nodes on one machine with two cores and no GPU, eight streaming clients of the
OpenAI package. Each run writes what it has seen into `faults.json` beside this page, and into this page: the last run
of each row.

*Again* is the time from the fault until every engine and the proxy gave tokens, in a cluster with its limit: a cold
start, the middle one of three in the same run, and 15 s. *Gap* is the longest time without an answer; *door*, with a
virtual address, that in which no new request passed it. *With* is the commit. Behind each fault one deploy repaired
what had drifted and a second one changed nothing, and no container, process, shared memory, lock or half-written file
was left; where that was not so, *seen* says what was wrong.
"""


def in_order(rows: list[Row]) -> list[Row]:
    """Scene by scene, as the faults stand in their list; without rows of faults that are no more."""
    # The same name may stand there twice: what is done then depends on the scene.
    return ordered(rows, [(scene, fault.name) for scene in EVERY for fault in FAULTS if scene in fault.scenes])


def ordered(rows: list[Row], keys: Sequence[tuple[str, str]]) -> list[Row]:
    """The last row of each scene and fault, in this order."""
    seen = {(row.scene, row.fault): row for row in rows}
    return [seen[key] for key in keys if key in seen]


def page(rows: list[Row]) -> str:
    """All of it, one table for each scene, and which faults are missing."""
    parts = [HEAD]
    for scene in dict.fromkeys(row.scene for row in rows):
        mine = [row for row in rows if row.scene == scene]
        parts += [f"\n## {scene}\n", *table(mine)]
        if scene.partition("/")[0] == "replicas":
            parts.append(_sum(scene, mine))
    good = sum(row.is_good for row in rows)
    timed = [row.took_s for row in rows if row.took_s]
    of_them = f" for the {len(timed)} whose time was kept" if len(timed) < len(rows) else ""
    parts.append(f"\n{len(rows)} rows, {good} as expected, {sum(timed) / 60:.0f} minutes{of_them}.")
    seen = {(row.scene, row.fault) for row in rows}
    for scene in EVERY:
        if left := [fault.name for fault in FAULTS if scene in fault.scenes and (scene, fault.name) not in seen]:
            parts.append(f"\nNot run for this page, {scene}: {'; '.join(left)}.")
    parts.append("\n## What can't be done here\n")
    parts += [f"- {what}: {why}" for what, why in NOT_HERE.items()]
    return "\n".join(parts) + "\n"


def table(rows: list[Row]) -> list[str]:
    """Lines of a table of them."""
    head = "| fault | expected | again, s | gap, s | requests | deploy | seen | with |"
    return [head, "|---|---|---|---|---|---|---|---|", *map(_line, rows)]


def _line(row: Row) -> str:
    again = f"{row.serves_again_s:.0f}" + (f" of {row.limit_s:.0f}" if row.limit_s else "")
    gap = f"{row.gap_s:.0f}" + (f", door {row.shut_s:.1f}" if row.shut_s else "")
    words = (row.fault, row.expected, again, gap, row.requests, row.drift, row.verdict, row.code)
    return "| " + " | ".join(word.replace("|", "\\|") for word in words) + " |"


def away(scene: str) -> set[str]:
    """The faults of a scene that leave the proxy's own node alone."""
    return {fault.name for fault in FAULTS if scene in fault.scenes and not fault.on_head}


def _sum(scene: str, rows: list[Row]) -> str:
    """What became of all requests in these faults."""
    counts = [re.match(r"(\d+) sent, (\d+) answered", row.requests) for row in rows if row.fault in away(scene)]
    sent, answered = (sum(int(each[number]) for each in counts if each) for number in (1, 2))
    return (
        f"\nIn the {len(counts)} faults that leave the proxy's own node alone: "
        f"{sent:,} requests sent, {answered:,} answered."
    )
