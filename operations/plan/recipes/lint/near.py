"""Whether a word that is not known is a slip of one that is, or a word of somebody's own.

Builds of vLLM that are no release have flags, parsers and values of their own (`mxfp4-backend`, a parser that a mod
brings). So a word that no release knows is wrong for certain only where it is almost one that they know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache

from operations.plan.config.refusal import nearest

#: Characters of a word; what has more is nobody's slip, and would take seconds to compare.
_LONGEST = 100


def slip(word: str, known: Iterable[str]) -> str:
    """The known word that is meant; empty: the word is nobody's slip.

    Other digits make another word (`glm47` and `glm52`); else one part may be misspelt, cut short or drawn out
    (`max-model-length`), or all stand in another order, or without their dashes, or one may be missing.
    """
    return _slip(word, tuple(known)) if len(word) <= _LONGEST else ""


# Each topology asks again.
@lru_cache(maxsize=4096)
def _slip(word: str, known: tuple[str, ...]) -> str:
    mine = _parts(word)
    for each in known:
        theirs = _parts(each)
        if re.sub(r"\D", "", word) != re.sub(r"\D", "", each) or word == each:
            continue
        if "".join(mine) == "".join(theirs) or (len(mine) > 1 and sorted(mine) == sorted(theirs)):
            return each
        other = [(a, b) for a, b in zip(mine, theirs, strict=False) if a != b]
        if len(mine) == len(theirs) and len(other) == 1 and _alike(*other[0]):
            return each
        if len(mine) > 1 and any(theirs[:at] + theirs[at + 1 :] == mine for at in range(len(theirs))):
            return each
    return ""


def hint(word: str, known: Iterable[str], otherwise: str) -> str:
    """`did you mean ...?` with what is meant, or begins alike, or is close; `otherwise` when nothing is."""
    return _hint(word, tuple(known), otherwise) if len(word) <= _LONGEST else otherwise


@lru_cache(maxsize=4096)
def _hint(word: str, every: tuple[str, ...], otherwise: str) -> str:
    begun = [each for each in every if min(len(word), len(each)) > 3 and each.lower().startswith(word.lower())]
    alike = [each for each in get_close_matches(word, every, 5) if distance(word, each) <= len(word) // 2]
    close = nearest(word, alike, otherwise)
    return f"did you mean `{meant}`?" if (meant := slip(word, every) or next(iter(begun), "")) else close


def _parts(word: str) -> list[str]:
    return [part for part in re.split(r"[-_.\s]", word.lower()) if part]


def _alike(one: str, other: str) -> bool:
    """`length` and `len`, `modle` and `model`."""
    short, long = sorted((one, other), key=len)
    if len(short) >= 3 and long.startswith(short):
        return True
    return distance(one, other) <= (1 if len(short) < 5 else 2) and len(short) > 2


def distance(one: str, other: str) -> int:
    """Letters to change, add, take away or swap with their neighbour."""
    rows = [list(range(len(other) + 1))]
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            row.append(min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b)))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                row[-1] = min(row[-1], rows[-2][j - 2] + 1)
        rows.append(row)
    return rows[-1][-1]
