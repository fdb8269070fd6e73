"""The last bench of a model, and what the advice says of the load that is really there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from last_hour import Hour

if TYPE_CHECKING:
    from operations.wire.page import Advice, AdviceTable, AdvisedPart, Better, Handed, ModelPart

NONE = "No bench of this model is known here. `tandem bench` measures it, `tandem advise` computes what fits a load."
OTHER = "Nothing is advised: what was handed over last is of another plan than this one, which `tandem bench` measures."
UNKNOWN = "Nothing is advised: of other topologies of this model nothing is known, or it shares its nodes with others."
UNCOUNTED = "Nothing is advised: how many ask is not known here."
#: Where the lengths of a table are from, as it says itself.
LENGTHS = {
    "bench": ", the bench's",
    "plain": ", taken as nothing else is known",
    "grid": ", the first that could be computed",
}
IDLE = "Nobody asks now, nor has in the last hour: nothing is advised."


def bench_and_advice(part: Handed | None, spec: str, now: ModelPart, hour: Hour) -> AdvisedPart:
    """`bench` (left out: none is known) and `advice` of a model's part. `part`: what was handed over (None: nothing);
    `now`: the model's figures.
    """
    if part is None:
        return {"advice": {"sentence": NONE}}
    if part["spec"] != spec:
        return {"advice": {"sentence": OTHER}}
    found: AdvisedPart = {"advice": _advice(part, now, hour)}
    if part["bench"]:
        found["bench"] = part["bench"]
    return found


def _advice(part: Handed, now: ModelPart, hour: Hour) -> Advice:
    if not part["advice"]:
        return {"sentence": UNKNOWN if part["bench"] else f"{UNKNOWN} {NONE}"}
    if "requests_running" not in now:
        return {"sentence": UNCOUNTED}
    asking = round(now["requests_running"] + now.get("requests_waiting", 0.0))
    users = asking or round(hour.most)
    if not users:
        return {"sentence": IDLE}
    table, lengths = _table(part, hour)
    taken = min(users, len(table["users"]))
    at = f"At {taken} user{'' if taken == 1 else 's'}"
    if taken < users:
        at += f" (of {users}: more are not computed)"
    at += " as now" if asking else ", the most of the last hour,"
    row = table["users"][taken - 1]
    if row is None:
        return {"sentence": f"{at} nothing is known of other topologies.", "users": taken, "lengths": lengths}
    return {"sentence": _sentence(at, row), "users": taken, "lengths": lengths, **row}


def _sentence(at: str, row: Better) -> str:
    if not row["better"]:
        return f"{at} no other topology gives more tokens a second ({row['kind']})."
    topology, _, how = row["better"].partition(", ")
    other = f"{topology} ({how})" if how else topology
    first = ""
    if {"first_here", "first_there"} <= {*row}:
        first = f", and the first token after {_seconds(row['first_there'])} in place of {_seconds(row['first_here'])}"
    tokens = f"{row['there']:,.0f} in place of {row['here']:,.0f}"
    return f"{at} {other} would give {row['by'] * 100:.0f} % more tokens a second: {tokens}{first} ({row['kind']})."


def _table(part: Handed, hour: Hour) -> tuple[AdviceTable, str]:
    """For lengths nearest to those of the last hour, and these in words; the first one where the hour says nothing."""
    tables = part["advice"]
    if hour.prompt and hour.answer:
        table = min(tables, key=lambda each: _apart(each["prompt"], hour.prompt) + _apart(each["answer"], hour.answer))
        why = f", the nearest to the last hour's {hour.prompt:,.0f} and {hour.answer:,.0f}"
    else:
        table = tables[0]
        why = LENGTHS.get(table.get("lengths_from", ""), "")
    return table, f"Computed for prompts of {table['prompt']:,.0f} tokens and answers of {table['answer']:,.0f}{why}."


def _apart(one: float, other: float) -> float:
    return abs(math.log(one / max(other, 1.0)))


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
