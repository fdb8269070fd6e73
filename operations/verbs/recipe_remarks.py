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
    """Lines of (recipe, what is said of it); what several recipes have of one kind is one line, and names them."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for name, line in told:
        # Of what stops a deploy every word counts.
        kind = line if line.startswith("error: ") else _OWN.sub("…", line)
        kinds.setdefault(kind, []).append((name, line))
    lines = []
    for said in kinds.values():
        names = list(dict.fromkeys(name for name, _ in said))
        if len(names) == 1:
            lines += [f"{name}: {line}" for name, line in said]
        else:
            lines.append(f"{len(names)} recipes: {common([line for _, line in said])} ({listed(names)})")
    return lines


def common(lines: Sequence[str]) -> str:
    """What lines of one kind have in common; where they differ in one place its values are listed, else … stands."""
    values = [list(dict.fromkeys(each)) for each in zip(*(_OWN.findall(line) for line in lines), strict=True)]
    is_one = sum(len(each) > 1 for each in values) == 1
    texts = [each[0] if len(each) == 1 else listed(each) if is_one else "…" for each in values]
    rest = _OWN.split(lines[0])
    return "".join(part for pair in zip_longest(rest, texts, fillvalue="") for part in pair)


def listed(names: Sequence[str]) -> str:
    """The first ones, and how many more."""
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{', '.join(names[:NAMES])}{more}"
