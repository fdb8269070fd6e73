"""The gate as a whole: what is asked next, the table of what came back, and how it compares with what served before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from operations.plan.answers import calls, chats, messages
from operations.plan.answers.questions import QUESTIONS
from operations.plan.answers.reading import Undecided, Wrong, has_failed
from operations.plan.answers.shapes import Check, Seen
from operations.plan.config.plain import plain
from operations.wire.answers import Probe, Row

CHECKS: tuple[Check, ...] = (*chats.CHECKS, *calls.CHECKS, *messages.CHECKS)
HOLDS, FAILS, UNSURE, NOT_ASKED = "holds", "fails", "unsure", "not asked"
#: Checks of sense that may be lost without a word: one answer in so many may turn out otherwise.
_CHANCE = 1
#: What a batch of three, or drafts, may turn on a sound engine at temperature 0: told, and not compared.
_TURNS = frozenset({"repeats", "streams-same"})
#: What comes of an answer whose parts are not what its protocol has.
_ODD = (KeyError, IndexError, TypeError, AttributeError, ValueError)
#: Characters of why a check does not hold: it quotes what a model has said.
_WHY = 200


def next_asked(seen: Seen) -> list[Probe]:
    """Requests that can be sent now; empty: all have been. One that can't be made is answered by why.

    Where the engine has answered others, one at which it failed is sent once more, before those that come after it.
    """
    found = list[Probe]()
    is_alive = any(each.get("status") == 200 for each in seen.answers.values())
    failed = {name for name, each in seen.answers.items() if is_alive and has_failed(each)} - seen.again
    seen.again |= failed
    settled = seen.answers.keys() - failed
    for each in QUESTIONS:
        if each.name in settled or _lack(seen, each.needs) or not set(each.after) <= settled:
            continue
        try:
            body = {"model": seen.subject.model, **each.body(seen)}
        except (Wrong, Undecided, *_ODD) as why:
            seen.answers[each.name] = {"text": f"it could not be asked: {why}"}
            continue
        found.append({"name": each.name, "path": each.path, "body": body})
    return found


def _lack(seen: Seen, needs: Sequence[str]) -> str:
    return next((seen.subject.lacks[each] for each in needs if each in seen.subject.lacks), "")


def table(seen: Seen) -> list[Row]:
    """A row for each check, in their order."""
    return [_row(each, seen) for each in CHECKS]


def _row(check: Check, seen: Seen) -> Row:
    if why := _lack(seen, check.wants):
        return {"name": check.name, "kind": check.kind, "verdict": NOT_ASKED, "why": why}
    verdict, why = HOLDS, ""
    try:
        check.judge(seen)
    except Wrong as error:
        verdict, why = FAILS, str(error)
    except Undecided as error:
        verdict, why = UNSURE, str(error)
    except _ODD as error:
        verdict, why = FAILS, f"an answer is not in its protocol's form ({type(error).__name__}: {error})"
    return {"name": check.name, "kind": check.kind, "verdict": verdict, "why": plain(why)[:_WHY]}


def faults(rows: Sequence[Row]) -> list[str]:
    """Names of checks of form that do not hold."""
    return [each["name"] for each in rows if each["kind"] == "form" and each["verdict"] == FAILS]


def undecided(rows: Sequence[Row]) -> str:
    """Why questions were asked and nothing is known: the first reason; empty: something is, or nothing was asked."""
    if any(each["verdict"] in (HOLDS, FAILS) for each in rows):
        return ""
    return next((each["why"] for each in rows if each["verdict"] == UNSURE), "")


def summary(rows: Sequence[Row]) -> str:
    """`form 22 of 24, sense 10 of 11, 5 not asked`, and how many say nothing."""
    said = [f"{kind} {_count(rows, kind, HOLDS)} of {_asked(rows, kind)}" for kind in ("form", "sense")]
    for verdict in (UNSURE, NOT_ASKED):
        if number := sum(each["verdict"] == verdict for each in rows):
            said.append(f"{number} {verdict}")
    return ", ".join(said)


def _count(rows: Sequence[Row], kind: str, verdict: str) -> int:
    return sum(each["kind"] == kind and each["verdict"] == verdict for each in rows)


def _asked(rows: Sequence[Row], kind: str) -> int:
    return _count(rows, kind, HOLDS) + _count(rows, kind, FAILS)


@dataclass(frozen=True)
class Fall:
    """What held in what served before, and does not hold now: names of checks. `is_below`: it is more than chance."""

    form: tuple[str, ...]
    sense: tuple[str, ...]
    gained: int

    @property
    def is_below(self) -> bool:
        """One of form, or more of sense than chance takes away from what is gained."""
        return bool(self.form) or len(self.sense) - self.gained > _CHANCE

    def __str__(self) -> str:
        return ", ".join((*self.form, *self.sense))


def fall(before: Sequence[Row], now: Sequence[Row]) -> Fall:
    """Compares two tables, of this Tandem or of an older one with fewer checks."""
    held = {each["name"]: each["verdict"] for each in before if each["name"] not in _TURNS}
    lost = [each for each in now if each["verdict"] == FAILS and held.get(each["name"]) == HOLDS]
    gained = sum(
        each["kind"] == "sense" and each["verdict"] == HOLDS and held.get(each["name"]) == FAILS for each in now
    )
    form, sense = (tuple(each["name"] for each in lost if each["kind"] == kind) for kind in ("form", "sense"))
    return Fall(form, sense, gained)


def page() -> str:
    """The table of all checks, for the manual."""
    lines = ["| check | | what holds | asked where the recipe has |", "|---|---|---|---|"]
    lines += [f"| `{each.name}` | {each.kind} | {each.says} | {', '.join(each.needs)} |" for each in CHECKS]
    return "\n".join(lines) + "\n"
