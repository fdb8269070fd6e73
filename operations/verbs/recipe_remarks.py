"""What the lint says of many recipes, a line for each kind of remark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

#: What differs between remarks of one kind: a number, a repository or an image, what stands between backticks.
_OWN = re.compile(r"`[^`]*`|\b[\w.-]+/[\w./:-]+|\d[\d.,]*")
#: Recipes that one line names.
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
        if len(names) == 1 and len(said) == 1:
            lines.append(f"{names[0]}: {text}")
            continue
        more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
        count = f"{len(names)} recipes" if len(names) > 1 else names[0]
        of_whom = f" ({', '.join(names[:NAMES])}{more})" if len(names) > 1 else ""
        lines.append(f"{count}: {text}{of_whom}")
    return lines


def common(lines: Sequence[str]) -> str:
    """What lines of one kind have in common, with … where they differ."""
    words = zip_longest(*(line.split() for line in lines), fillvalue="…")
    return " ".join(each[0] if len(set(each)) == 1 else "…" for each in words)
