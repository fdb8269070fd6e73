"""What the verbs for keys of clients ask the head, and what they print."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import Any

from pyinfra import inventory
from pyinfra.api.exceptions import DeployError
from rich.console import Console
from rich.table import Table

from operations import reach
from operations.plan.refusal import Refusal
from operations.verbs.report import everywhere, the_head

#: Seconds for the head to look into a file.
DEADLINE_S = 60


def given(name: str) -> str:
    """What stands behind NAME= and its like: `make` hands them on in the environment, where they stay what they are."""
    return os.environ.get(name, "")


def ask_head(**arguments: Any) -> dict[str, Any]:
    """What the head says; raises DeployError where it can't."""
    answer = next(iter(everywhere(the_head(), "keys", deadline_s=DEADLINE_S, **arguments).values()))
    if "problem" in answer:
        raise DeployError(answer["problem"])
    return answer


def tell_others(changes: dict[str, Any], alone: bool) -> list[str]:
    """What became of keys on the head, to the proxies of the other nodes; a line for each that does not know it now.
    `alone`: there is none but the head's.
    """
    if alone:
        return []
    head = next(iter(inventory)).name
    others = [each for each in reach.answering(inventory) if each.name != head]
    answers: dict[str, dict[str, Any]] = {}
    if others:
        whose = {each.name: {"where": each.name} for each in others}
        with suppress(DeployError):
            answers = everywhere(others, "keys", deadline_s=DEADLINE_S, of_node=whose, take=changes)
    told = {name: answer["problem"] for name, answer in answers.items() if "problem" in answer and "idle" not in answer}
    away = {absence.name: absence.why for absence in reach.absent(inventory)}
    return [f"{name} has not heard of it ({why})" for name, why in (told | away).items()]


def refused(refusal: Refusal) -> DeployError:
    """One line for each thing that is wrong."""
    return DeployError("\n".join(f"{finding.problem}: {finding.remedy}" for finding in refusal.findings))


def made_line(name: str, key: dict[str, Any]) -> str:
    """What a new key may, beside the key."""
    ends = f"until {_moment(key['expires'])} UTC" if key["expires"] else "without an end"
    at_once = f"{key['requests']} requests at once" if key["requests"] else "any number of requests at once"
    a_minute = f"{key['tokens']} tokens a minute" if key["tokens"] else "any number of tokens"
    return f"the key of `{name}`, {ends}, {at_once}, {a_minute}; it is not shown again"


def added_up(answers: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The head's keys, with what they have used of all nodes' proxies. Raises DeployError where a node can't say it."""
    said = [answer for answer in answers.values() if "idle" not in answer]
    for answer in said or list(answers.values()):
        if "problem" in answer:
            raise DeployError(answer["problem"])
    rows = [dict(row) for row in said[0]["keys"]]
    for other in said[1:]:
        used = {row["name"]: row for row in other["keys"]}
        for row in rows:
            if more := used.get(row["name"]):
                row |= {name: row[name] + more[name] for name in ("requests", "tokens")}
                row["last"] = max((each for each in (row["last"], more["last"]) if each is not None), default=None)
    return rows


def key_table(rows: list[dict[str, Any]]) -> None:
    """A row for each key, times in UTC."""
    columns = ("name", "made", "expires", "at once", "tokens/min", "last use", "requests", "tokens")
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        ends = f"{_moment(row['expires'])}{' (over)' if row['expired'] else ''}"
        limits = [str(row[name] or "-") for name in ("at_once", "a_minute")]
        used = [_moment(row["last"]), str(row["requests"]), str(row["tokens"])]
        table.add_row(row["name"], _moment(row["made"]), ends, *limits, *used)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _moment(seconds: float | None) -> str:
    return "-" if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))
