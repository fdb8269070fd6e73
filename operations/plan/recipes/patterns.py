"""Patterns of a recipe's proof: Python's `re`, without what takes for ever on a line that does not match."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Characters of a pattern.
LONGEST = 500
#: What a pattern that `re` takes consists of: Python has no public way to its own reading of it.
_WORD = re.compile(
    r"""(?P<reference>\\[89]|\\[1-7](?![0-7]{2})|\(\?P=\w+\)|\(\?\(\w+\))
    |(?P<verbose>\(\?[a-zA-Z]*x[a-zA-Z]*(?:-[a-zA-Z]+)?[:)])
    |(?P<nothing>\(\?\#[^)]*\)|\(\?[a-zA-Z]+\))
    |(?P<opens>\((?:\?(?:P<\w+>|<?[=!]|>|[a-zA-Z]*(?:-[a-zA-Z]+)?:))?)
    |(?P<closes>\))
    |(?P<repeats>[*+?]|\{(?!\})(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\})[?+]?
    |(?P<choice>\|)
    |(?P<character>\\(?:x..|u.{4}|U.{8}|N\{[^}]*\}|0[0-7]{0,2}|[0-7]{3})|\\[^AbBZ]|\[(?!\^)\]?(?:\\.|[^\]\\])*\]|[^\\.^$\[])
    |(?P<other>\[\^\]?(?:\\.|[^\]\\])*\]|\\?.)""",
    re.X | re.S,
)


@dataclass
class _Group:
    """`varies`: something in it comes a number of times that is not fixed. `chooses`: something in it is a choice that
    is no set of characters (`(a|b)` is one).
    """

    varies: bool = False
    chooses: bool = False
    has_choice: bool = False
    is_set: bool = True
    items: int = 0

    def end_way(self) -> None:
        """One way of a choice ends."""
        self.is_set &= self.items == 1
        self.items = 0

    def add(self, *, is_character: bool) -> None:
        """The next thing in it."""
        self.items += 1
        self.is_set &= is_character


def fault(text: str) -> str:
    """Why a pattern can't be used; empty: it can.

    A repetition within a repetition (`(a+)+`), or a choice or a reference back within one, tries each way to divide a
    line: with thirty characters that is a thousand million ways. What is left is bounded where lines are read.
    """
    if len(text) > LONGEST:
        return f"it has more than {LONGEST} characters"
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        return f"is not a regular expression: {error}"
    return _fault(text)


def _fault(text: str) -> str:
    group, outer = _Group(), list[_Group]()
    closed: _Group | None = None
    for word in _WORD.finditer(text):
        kind = word.lastgroup
        if kind == "nothing":
            continue
        before, closed = closed, None
        if kind == "reference":
            return "refers back to a group, which can take for ever: write it out"
        if kind == "verbose":
            return "is in the verbose form of `(?x)`: write it without"
        if kind == "opens":
            outer.append(group)
            group = _Group()
        elif kind == "closes":
            group.end_way()
            group.chooses |= group.has_choice and not group.is_set
            closed, group = group, outer.pop()
            group.add(is_character=False)
            group.varies |= closed.varies
            group.chooses |= closed.chooses
        elif kind == "choice":
            group.end_way()
            group.has_choice = True
        elif kind == "repeats":
            least, most = _times(word)
            if before and most > 1 and before.varies:
                return "has a repetition within a repetition, which can take for ever: write it flat"
            if before and most > 1 and before.chooses:
                return "has a choice within a repetition, which can take for ever: write it flat"
            group.varies |= least != most
            group.is_set = False
        else:
            group.add(is_character=kind == "character")
    return ""


def _times(word: re.Match[str]) -> tuple[float, float]:
    """How often at least, and at the most."""
    if word["repeats"] in ("*", "+", "?"):
        return word["repeats"] == "+", 1 if word["repeats"] == "?" else float("inf")
    least = int(word["least"] or 0)
    return least, int(word["most"]) if word["most"] else float("inf") if word["comma"] else least
