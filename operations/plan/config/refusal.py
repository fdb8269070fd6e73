"""The one way to say no: what is wrong, what was expected, what to do."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from operations.plan.config.plain import plain
from operations.plan.config.secret import hidden


@dataclass(frozen=True)
class Finding:
    """One thing that stands in the way. `where` is a node, a file, or `knob`. `code`: of its kind (kind.py);
    empty: somebody typed it.
    """

    where: str
    problem: str
    remedy: str
    code: str = ""

    def __post_init__(self) -> None:
        # They quote what anybody may have written.
        for name in ("where", "problem", "remedy"):
            object.__setattr__(self, name, hidden(plain(getattr(self, name))))


@dataclass(frozen=True)
class Remark:
    """Something about a recipe. `error`: the deploy stops; else it is shown. `remedy` says what to write instead."""

    error: bool
    problem: str
    remedy: str

    def __post_init__(self) -> None:
        for name in ("problem", "remedy"):
            object.__setattr__(self, name, hidden(plain(getattr(self, name))))

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


class Refusal(Exception):
    """Raised before anything is changed; the text shows all findings at once, and the `table` behind them."""

    def __init__(self, *findings: Finding, table: str = "") -> None:
        self.findings = findings
        super().__init__(as_table(findings) + table)


def as_table(findings: tuple[Finding, ...]) -> str:
    """Findings as aligned text, one paragraph each: `where  problem [code]`, the remedy under it."""
    width = max((len(finding.where) for finding in findings), default=0)
    lines = []
    for finding in findings:
        lines.append(f"{finding.where.ljust(width)}  {coded(finding.problem, finding.code)}")
        lines.append(f"{' ' * width}  -> {finding.remedy}")
    return "\n" + "\n".join(f"    {line}" for line in lines)


def coded(text: str, code: str) -> str:
    """A line of a finding, with its code behind it where it has one: `tandem explain CODE` says more."""
    return f"{text} [{code}]" if code else text


def typed(knob: str, value: str) -> str:
    """A knob's value as an owner types it: `topology=solo`."""
    return f"{knob}={shlex.quote(value)}"


def nearest(word: str, known: Iterable[str], otherwise: str, least: float = 0.6) -> str:
    """`did you mean ...?` with the closest known word; `otherwise` when none is. `least`: 1 is the same word."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=least)
    return f"did you mean `{close[0]}`?" if close else otherwise


def alike(word: str, known: Iterable[str], otherwise: str) -> str:
    """`do you mean ...?` with those that have the word in them, else as `nearest` says."""
    every = list(known)
    found = [each for each in every if word and word.lower() in each]
    if len(found) > 1:
        return f"do you mean one of: {', '.join(found[:4])}?"
    return f"did you mean `{found[0]}`?" if found else nearest(word.lower(), every, otherwise)
