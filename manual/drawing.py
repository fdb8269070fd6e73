"""The rooms and their imports as a picture (docs/assets/imports.svg).

What a room imports by way of another one that it imports is left out: with it nobody could follow a line.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from manual.rooms import HOUSE, arrows

WIDTH = 1240
_BOX, _FLOOR, _MARGIN, _LETTER = 30, 62, 20, 7.3
_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" \
font-family="system-ui, sans-serif" font-size="13">
<title>Which room imports which: every line goes down</title>
<rect width="{width}" height="{height}" rx="8" fill="#fff"/>
"""


def drawing() -> str:
    """The picture, as text."""
    boxes = dict(_boxes())
    height = len(HOUSE) * _FLOOR + _MARGIN
    lines = [_line(boxes[above], boxes[below]) for above, below in sorted(straight(arrows()))]
    drawn = [_box(name, *place) for name, place in boxes.items()]
    return _HEAD.format(width=WIDTH, height=height) + "\n".join([*lines, *drawn]) + "\n</svg>\n"


def straight(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those that no longer way says as well; of rooms that import downwards alone."""
    below: dict[str, set[str]] = {}
    for above, other in pairs:
        below.setdefault(above, set()).add(other)

    def reached(name: str) -> set[str]:
        return {each for other in below.get(name, ()) for each in (other, *reached(other))}

    return [
        (above, other)
        for above, others in below.items()
        for other in others
        if not any(other in reached(way) for way in others - {other})
    ]


def _boxes() -> Iterable[tuple[str, tuple[float, float, float]]]:
    """By room: left edge, upper edge and width."""
    for number, floor in enumerate(HOUSE):
        widths = [len(room.name) * _LETTER + 22 for room in floor]
        gap = (WIDTH - 2 * _MARGIN - sum(widths)) / (len(floor) + 1)
        left = _MARGIN + gap
        for room, width in zip(floor, widths, strict=True):
            yield room.name, (round(left, 1), _MARGIN + number * _FLOOR, round(width, 1))
            left += width + gap


def _line(above: tuple[float, float, float], below: tuple[float, float, float]) -> str:
    (left, top, width), (other, under, wide) = above, below
    x, y, to, end = left + width / 2, top + _BOX, other + wide / 2, under
    middle = (y + end) / 2
    way = f"M{x:.0f} {y:.0f}C{x:.0f} {middle:.0f} {to:.0f} {middle:.0f} {to:.0f} {end:.0f}"
    return f'<path d="{way}" fill="none" stroke="#0f766e" stroke-width="1.2" opacity=".7"/>'


def _box(name: str, left: float, top: float, width: float) -> str:
    at = f'x="{left + width / 2:.1f}" y="{top + 20:.0f}" text-anchor="middle"'
    return (
        f'<rect x="{left}" y="{top}" width="{width}" height="{_BOX}" rx="6" fill="#f0fdfa" stroke="#0f766e"/>'
        f"<text {at}>{escape(name)}</text>"
    )
