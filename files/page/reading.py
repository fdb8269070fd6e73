"""Prometheus' text format read back: what the exporter of a node has said, at a time."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

#: Labels, and the value that they have.
Value = tuple[dict[str, str], float]


@dataclass(frozen=True)
class Reading:
    """name -> its values. `when`: seconds since 1970."""

    when: float
    values: dict[str, list[Value]] = field(default_factory=dict)

    def all(self, name: str, **labels: str) -> Iterator[Value]:
        """Values of this name that have these labels, among others."""
        for mine, value in self.values.get(name, []):
            if labels.items() <= mine.items():
                yield mine, value

    def one(self, name: str, **labels: str) -> float | None:
        """The first of them; None: it was not said."""
        return next((value for _, value in self.all(name, **labels)), None)


def read(text: str, when: float, prefixes: tuple[str, ...], names: Collection[str]) -> Reading:
    """What begins with a prefix or is among the names; lines that are none are passed over, and so is what is no
    number.
    """
    values: dict[str, list[Value]] = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if not found or not (found[1] in names or found[1].startswith(prefixes)):
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        if math.isfinite(value):
            values.setdefault(found[1], []).append((dict(_labels(found[2] or "")), value))
    return Reading(when, values)


def _labels(text: str) -> Iterator[tuple[str, str]]:
    for name, value in _LABEL.findall(text):
        yield name, re.sub(r"\\[\\\"n]", lambda found: _ESCAPED[found[0]], value)
