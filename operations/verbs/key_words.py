"""What the verbs for keys of clients ask the head, and what they print."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyinfra.api.exceptions import DeployError
from pyinfra.api.host import Host
from rich.console import Console
from rich.table import Table

from operations.node.door import keys as node_keys
from operations.plan.config.refusal import Refusal
from operations.runner.remote import ask_or_none, hand_or_none
from operations.runner.run import Run
from operations.verbs.report import everywhere, the_head
from operations.wire.keys import Key, KeyRow, KeysTold, NewKey

#: Seconds for the head to look into a file.
DEADLINE_S = 60


def given(name: str) -> str:
    """A word of the verb, from the environment, where it stays what it is: --expires is EXPIRES there."""
    return os.environ.get(name, "")


def ask_head(run: Run, **arguments: Any) -> KeysTold:
    """What the head says; raises DeployError where it can't, and where something is wrong. That there is no such key is
    for whoever asked.
    """
    answers: dict[str, KeysTold] = everywhere(
        run, the_head(run), lambda host: ask_or_none(host, node_keys.main, **arguments), DEADLINE_S
    )
    answer = next(iter(answers.values()))
    if "problem" in answer and "unknown" not in answer:
        raise DeployError(answer["problem"])
    return answer


def make_on_head(run: Run, wanted: NewKey) -> KeysTold:
    """The same, of a new key. The first one of a head is made where no other node has some: a head that has lost its
    file would end them all.
    """
    answer = ask_head(run, make=wanted, careful=True)
    if "none" not in answer:
        return answer
    if others := [each for each in run.answering if each not in the_head(run)]:
        said: dict[str, KeysTold] = {}
        with suppress(DeployError):
            said = everywhere(run, others, lambda host: ask_or_none(host, node_keys.main, tell=True), DEADLINE_S)
        if has := next((name for name, answer in said.items() if answer.get("text", "{}").strip() != "{}"), ""):
            raise DeployError(f"{has} has keys of clients and the head has none: `tandem apply` brings them to it")
    return ask_head(run, make=wanted)


@dataclass
class Told:
    """What came of telling the other nodes. `missed`: a line for each that does not know it now; `dropped`: names of
    keys that were ended on one of them.
    """

    missed: list[str]
    dropped: set[str]


def tell_others(run: Run, text: str, alone: bool) -> Told:
    """The head's file of keys becomes that of all nodes with a proxy. `alone`: there is none
    but the head's; others that answer are told nevertheless, for they may have been away when the plan changed.
    """
    head, answers, dropped = run.head.name, dict[str, KeysTold](), set[str]()
    while others := [each for each in run.answering if each.name != head]:
        with suppress(DeployError):
            answers |= everywhere(run, others, partial(_take, text), DEADLINE_S)
        dropped |= {name for answer in answers.values() for name in answer.get("dropped", ())}
        now = _heads(run, text)
        if now == text:
            break
        # Somebody else has changed them, and may have told the others before us.
        text = now
    told = {name: answer["problem"] for name, answer in answers.items() if "problem" in answer and "idle" not in answer}
    away = {} if alone else {absence.name: absence.why for absence in run.absent if absence.name != head}
    return Told([f"{name} has not heard of it ({why})" for name, why in (told | away).items()], dropped)


def _take(text: str, host: Host) -> KeysTold | None:
    return hand_or_none(host, text, node_keys.main, take=True, where=host.name)


def _heads(run: Run, text: str) -> str:
    """The head's file as it is now; one that falls silent has changed nothing."""
    with suppress(DeployError):
        return str(ask_head(run, tell=True)["text"])
    return text


def refused(refusal: Refusal) -> DeployError:
    """One line for each thing that is wrong."""
    return DeployError("\n".join(f"{finding.problem}: {finding.remedy}" for finding in refusal.findings))


def made_line(name: str, key: Key) -> str:
    """What a new key may, beside the key."""
    ends = f"until {_moment(key['expires'])} UTC" if key["expires"] else "without an end"
    at_once = f"{key['requests']} requests at once" if key["requests"] else "any number of requests at once"
    a_minute = f"{key['tokens']} tokens a minute" if key["tokens"] else "any number of tokens"
    return f"the key of `{name}`, {ends}, {at_once}, {a_minute}; it is not shown again"


def added_up(heads: KeysTold, others: Mapping[str, KeysTold]) -> tuple[list[KeyRow], list[str]]:
    """The head's keys, with what they have used of all nodes' proxies, and a line for each node that has others or
    can't say it. Raises DeployError where the head can't.
    """
    if "problem" in heads:
        raise DeployError(heads["problem"])
    rows, lines = [row.copy() for row in heads["keys"]], list[str]()
    for name, answer in others.items():
        if "problem" in answer:
            lines += [] if "idle" in answer else [answer["problem"]]
            continue
        used = {row["id"]: row for row in answer["keys"]}
        if [_rights(row) for row in rows] != [_rights(row) for row in answer["keys"]]:
            lines.append(f"{name} has other keys than the head: `tandem apply` puts the head's there")
        for row in rows:
            if more := used.get(row["id"]):
                row["requests"] += more["requests"]
                row["tokens"] += more["tokens"]
                row["last"] = max((each for each in (row["last"], more["last"]) if each is not None), default=None)
    return rows, lines


def _rights(row: KeyRow) -> list[object]:
    return [row["name"], row["id"], row["expires"], row["at_once"], row["a_minute"]]


def key_table(rows: list[KeyRow]) -> None:
    """A row for each key, times in UTC."""
    columns = ("name", "made", "expires", "at once", "tokens/min", "last use", "requests", "tokens")
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        ends = f"{_moment(row['expires'])}{' (over)' if row['expired'] else ''}"
        limits = [str(limit or "-") for limit in (row["at_once"], row["a_minute"])]
        used = [_moment(row["last"]), str(row["requests"]), str(row["tokens"])]
        table.add_row(row["name"], _moment(row["made"]), ends, *limits, *used)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _moment(seconds: float | None) -> str:
    return "-" if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))
