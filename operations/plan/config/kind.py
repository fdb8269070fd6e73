"""Kinds of findings. Each has a code, under which an owner looks up what it means and what helps.

A finding is something that was seen on a node or between nodes. What a person typed wrongly is refused with the
expected value and the remedy, and has no code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from string import Formatter
from typing import NamedTuple

from operations.plan.config.refusal import Finding

#: Every kind whose module is imported, by its code; operations/plan/doctor/findings.py imports all of them.
KINDS: dict[str, Kind] = {}


class Said(NamedTuple):
    """What a finding says of a node that is named by whoever asked."""

    problem: str
    remedy: str
    code: str


#: What a check yields.
Findings = Iterator[Said]


@dataclass(frozen=True)
class Kind:
    """What is seen, what it means for the service, and what helps. The texts have `{names}`, which a finding fills.

    `code`: words with dashes, the first is its topic (manual/messages.py). Owners note codes, so a code and what it
    stands for never change. `means` is empty where `seen` says it. `general`: what helps as a rule, where the remedy is
    worded on the node. Raises ValueError where another kind has the code, or where such a kind has no `general`.
    """

    code: str
    seen: str
    means: str = ""
    remedy: str = ""
    general: str = ""

    def __post_init__(self) -> None:
        if self.code in KINDS:
            raise ValueError(f"two kinds of findings have the code {self.code}")
        if _is_worded_elsewhere(self.remedy) and not self.general:
            raise ValueError(f"{self.code} says nothing of what helps as a rule")
        KINDS[self.code] = self

    def said(self, **data: object) -> Said:
        """The words of one. `data`: what the texts name."""
        return Said(self.seen.format(**data), self.remedy.format(**data), self.code)

    def finding(self, where: str, /, **data: object) -> Finding:
        """One that stands in the way of a deploy. `where`: a node, or `fabric`."""
        return Finding(where, *self.said(**data))

    def explained(self) -> tuple[str, str, str]:
        """What is seen, what it means and what helps, with `<name>` for what only a finding knows."""
        where = f"the line in front of `[{self.code}]` has the names"
        seen = where if _is_worded_elsewhere(self.seen) else _named(self.seen)
        return seen, _named(self.means), _named(self.general or self.remedy)


def _is_worded_elsewhere(text: str) -> bool:
    """Whether all of it is one name, which a node or a check fills with its own words."""
    return [plain for plain, *_ in Formatter().parse(text)] == [""]


def _named(text: str) -> str:
    told = ""
    for plain, name, _, _ in Formatter().parse(text):
        told += plain
        # What hangs on a word is a tail that most findings don't have.
        if name and not told[-1:].isalnum() and not told.endswith(">"):
            told += f"<{name.replace('_', ' ')}>"
    return told
