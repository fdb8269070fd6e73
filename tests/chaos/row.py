"""One fault done to one scene under load, and what was seen."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.chaos import client
from tests.chaos.client import Seen
from tests.chaos.fault import Fault
from tests.chaos.passing import passing
from tests.chaos.scene import Scene
from tests.lab.cluster import Deploy

#: Seconds that a cluster may need beyond a cold start.
GRACE_S = 15.0
#: Seconds that a proxy may need beyond its own start: until it is noticed and ended, and at least BUSY_S, before which
#: nobody looks.
PROXY_GRACE_S = 15.0
#: Seconds of full load around a fault; in between clients pause, because two cores start the engines as well.
CALM_S, BUSY_S, PAUSE_S = 4.0, 12.0, 5.0


@dataclass
class Row:
    """What is printed and kept of one fault."""

    scene: str
    fault: str
    expected: str
    #: Seconds until every engine and the proxy gave tokens again; limit 0: none is set.
    serves_again_s: float = 0.0
    limit_s: float = 0.0
    #: The longest time without a complete answer.
    gap_s: float = 0.0
    #: The longest time in which no new request passed the door, where there is a limit to it.
    shut_s: float = 0.0
    requests: str = ""
    drift: str = ""
    problems: list[str] = field(default_factory=list)
    #: A limit of time that was not kept: on a slow machine it says nothing, so no test looks at it.
    late: str = ""
    took_s: float = 0.0
    #: The commit that this was seen with.
    code: str = ""

    @property
    def verdict(self) -> str:
        """One line."""
        words = [problem.splitlines()[0] for problem in self.problems] + ([self.late] if self.late else [])
        return "; ".join(words) or "as expected"

    @property
    def is_good(self) -> bool:
        """Nothing is wrong, and nothing late."""
        return not self.problems and not self.late

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def run(scene: Scene, fault: Fault) -> Row:
    """Do it; never raises for what it sees."""
    row, began = Row(scene.name, fault.name, fault.expected), time.monotonic()
    if scene.topology == "cluster" and fault.heals == "itself" and scene.cold_start_s:
        row.limit_s = round(scene.cold_start_s + GRACE_S + fault.patience_s, 1)
    if fault.of_proxy:
        row.limit_s = round(scene.time_a_proxy_start() + PROXY_GRACE_S, 1)
    with passing(scene.at["OPENAI_BASE_URL"]) as door, client.load(scene.at, scene.expected, scene.CLIENTS) as seen:
        time.sleep(CALM_S)
        try:
            repaired = _happen(scene, fault, seen, row)
        except (TimeoutError, AssertionError) as error:
            repaired = None
            row.problems.append(str(error))
        if fault.afterwards:
            fault.afterwards(scene)
        seen.pause_s = 0.0
        time.sleep(CALM_S)
    row.gap_s, row.requests = round(seen.gap, 1), str(seen)
    row.problems += _lost(scene, fault, seen)
    if fault.passes_s:
        row.shut_s = round(door.shut_s, 1)
        if row.shut_s > fault.passes_s:
            row.late = f"no new request passed for {row.shut_s} s, more than {fault.passes_s}"
    _settle(scene, fault, row, repaired)
    row.took_s = round(time.monotonic() - began)
    return row


def _happen(scene: Scene, fault: Fault, seen: Seen, row: Row) -> Deploy | None:
    """The fault, and its end; the deploy that put it right, where that is what it takes."""
    start = time.monotonic()
    seen.pause_s = PAUSE_S if fault.takes_minutes else 0.0
    try:
        fault.do(scene)
        time.sleep(max(0.0, start + fault.held_s - time.monotonic()) if fault.held_s else 0.0)
    finally:
        # Also when it did not go as it should: the next row shall not stand on what this one left.
        if fault.undo:
            fault.undo(scene)
            start = time.monotonic()
    repaired = None
    if fault.heals == "deploy":
        seen.pause_s = PAUSE_S
        repaired = scene.deploy()
        if repaired.code == 0:
            # The key may be another one.
            scene.at = scene.endpoint()
    time.sleep(max(0.0, start + BUSY_S - time.monotonic()) if fault.heals == "itself" and not fault.undo else 0.0)
    seen.pause_s = PAUSE_S
    patience_s = time.monotonic() - start + scene.PATIENCE_S
    row.serves_again_s = round(scene.wait_until_all_answer(start, patience_s), 1)
    if row.limit_s and row.serves_again_s > row.limit_s:
        row.late = f"{row.serves_again_s} s until it served again, more than {row.limit_s}"
    return repaired


def _lost(scene: Scene, fault: Fault, seen: Seen) -> list[str]:
    """Requests that should not have ended as they did."""
    problems = [f"{seen.wrong.total()} wrong answers ({seen.wrong.most_common(1)[0][0]})"] if seen.wrong else []
    if untold := sum(count for how, count in seen.failed.items() if how.startswith("HTTP 5")):
        problems.append(f"{untold} requests ended with an HTTP 5xx, and were not told when to come back")
    if scene.topology == "replicas" and not fault.on_head:
        lost = seen.failed.total() + seen.turned_away
        return [*problems, f"{lost} requests lost"] if lost else problems
    # Whoever was being answered loses the answer, and so may who asks before the proxy has noticed. Without a proxy
    # there is nobody to turn clients away.
    if not fault.on_head and seen.failed.total() > 3 * scene.CLIENTS:
        problems.append(f"{seen.failed.total()} requests failed, not only those under way")
    return problems


def _settle(scene: Scene, fault: Fault, row: Row, repaired: Deploy | None) -> None:
    """A deploy repairs what drifted, and the next one finds nothing to do."""
    first = repaired or scene.deploy()
    if first.code != 0:
        row.problems.append(f"the deploy afterwards fails: {first.text[-600:]}")
        return
    row.drift = f"{first.changes} repaired" if first.changes else "nothing drifted"
    for change in first.changed:
        print(f"{scene.name}: {fault.name}: repaired: {change}", file=sys.stderr)
    if fault.told and fault.told not in first.text:
        row.problems.append(f"the deploy does not say `{fault.told}`")
    second = scene.deploy()
    if second.code != 0 or second.changes:
        row.problems.append(f"the deploy after that changes something: {second.text[-600:]}")
    row.problems += scene.leftovers()
