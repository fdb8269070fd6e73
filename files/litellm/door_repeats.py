"""How much a pattern or a grammar is once its counted repeats (`{0,30}`) are written out: what makes answers fit them
does that, and one within another multiplies.
"""

from __future__ import annotations

import re

#: What is more is this much.
MOST = 10**9
#: Times that are few: a hash has 64 letters.
FEW = 64
_SPACES = " {0,9}"
_COUNT = rf"\{{{_SPACES}(?P<least>[0-9]*){_SPACES}(?:,{_SPACES}(?P<most>[0-9]*){_SPACES})?\}}"
#: Lark's.
_OTHER_COUNT = rf"~{_SPACES}(?P<exactly>[0-9]+)(?:{_SPACES}\.\.{_SPACES}(?P<up>[0-9]+))?"
#: What is one thing to match: an escape, a set of characters; in a grammar also a word in quotes. One that does not end
#: reaches to the end: each text is looked through once.
_ONE = r"\\.|\[(?:\\.|[^\]\\])*(?:\]|\Z)"
_QUOTED = r""""(?:\\.|[^"\\])*(?:"|\Z)|'(?:\\.|[^'\\])*(?:'|\Z)|(?:\#|//)[^\n]*"""
_MARK = r"(?P<mark>[()|*+?])"
_PATTERN = re.compile(rf"(?P<one>{_ONE})|{_COUNT}|{_MARK}", re.S)
_GRAMMAR = re.compile(rf"(?P<one>{_ONE}|{_QUOTED})|{_COUNT}|{_OTHER_COUNT}|{_MARK}", re.S)
_COUNTS = re.compile(rf"[{{~]{_SPACES},?{_SPACES}[0-9]")


def counts(text: str) -> bool:
    """Whether it has a counted repeat."""
    return ("{" in text or "~" in text) and _COUNTS.search(text) is not None


def written_out(text: str) -> tuple[int, int]:
    """How many things to match there are, and the largest product of counts of which one stands in another, or 0. A
    text is read as a pattern and as a grammar, and the more of both is told.
    """
    one, other = _read(text, _PATTERN), _read(text, _GRAMMAR)
    return max(one[0], other[0]), max(one[1], other[1])


def _read(text: str, words: re.Pattern[str]) -> tuple[int, int]:
    # What stands before each group that is open, and the largest product in that.
    before: list[tuple[int, int]] = []
    nested = at = 0
    # Of the innermost group, and of the last thing in it: how much, and the largest product of counts in it.
    total, inside, last, counts = 0, 1, 0, 1
    for found in words.finditer(text):
        if plain := text[at : found.start()].strip():
            total, last, counts = total + len(plain), 1, 1
        at = found.end()
        mark = found["mark"]
        if found["one"]:
            total, last, counts = total + 1, 1, 1
        elif mark == "(":
            before.append((total, inside))
            total, inside, last, counts = 0, 1, 0, 1
        elif mark == ")":
            # One that closes nothing closes all that is before it.
            last, counts = total, inside
            outer, beside = before.pop() if before else (0, 1)
            total, inside = total + outer, max(inside, beside)
        elif not mark and (times := _times(found)) > 1:
            if counts > 1:
                nested = min(max(nested, counts * times), MOST)
            # What stands there exactly so often, and not often, leaves nothing to choose.
            choices = times if counts > 1 or times > FEW or not _is_exact(found) else 1
            total, last, counts = total + last * (times - 1), last * times, counts * choices
            total, last, counts = min(total, MOST), min(last, MOST), min(counts, MOST)
            inside = max(inside, counts)
    return min(sum(outer for outer, _ in before) + total + len(text[at:]), MOST), nested


def _is_exact(found: re.Match[str]) -> bool:
    said = found.groupdict()
    if said.get("exactly"):
        return said.get("up") in (None, said["exactly"])
    return "," not in found[0] or said["least"] == said["most"] != ""


def _times(found: re.Match[str]) -> int:
    said = [each for name in ("least", "most", "exactly", "up") if (each := found.groupdict().get(name))]
    return max([1, *(int(each) if len(each) < 10 else MOST for each in said)])
