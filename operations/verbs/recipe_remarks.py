"""What the lint says of many recipes, a line for each kind of remark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

#: What differs between remarks of one kind: a number, a repository or an image, what stands between backticks.
_OWN = re.compile(r"`[^`]*`|\b[\w.-]+/[\w./:-]+|\d[\d.,]*")
#: Recipes, or values, that one line names.
NAMES = 6


def grouped(told: Iterable[tuple[str, str]]) -> list[str]:
    """Lines of (recipe, what is said of it), those of one kind as one: with what they have in common, and of whom."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for name, line in told:
        # Of what stops a deploy every word counts.
        kind = line if line.startswith("error: ") else _OWN.sub("…", line)
        kinds.setdefault(kind, []).append((name, line))
    lines = []
    for said in kinds.values():
        names = list(dict.fromkeys(name for name, _ in said))
        text = common([line for _, line in said])
        if len(names) == 1 and "…" in text:
            lines += [f"{name}: {line}" for name, line in said]
        elif len(names) == 1:
            lines.append(f"{names[0]}: {text}")
        else:
            lines.append(f"{len(names)} recipes: {text} ({listed(names)})")
    return lines


def common(lines: Sequence[str]) -> str:
    """What lines of one kind have in common. Where they differ in one word all its values are listed, else … is."""
    words = list(zip_longest(*(line.split() for line in lines), fillvalue="…"))
    values = [list(dict.fromkeys(each)) for each in words]
    is_one = sum(len(each) > 1 for each in values) == 1
    return " ".join(each[0] if len(each) == 1 else listed(each) if is_one else "…" for each in values)


def listed(names: Sequence[str]) -> str:
    """The first ones, and how many more."""
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{', '.join(names[:NAMES])}{more}"
