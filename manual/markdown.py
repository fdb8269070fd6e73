"""Plain text as Markdown."""

from __future__ import annotations

import re


def escaped(text: str) -> str:
    """As Markdown that shows the same, and that reads well as it is; what is in backticks stays code, and what only a
    run knows becomes it.
    """
    parts = text.split("`")
    if len(parts) % 2 == 0:
        parts = [text.replace("`", "'")]
    shown = "`".join(part if number % 2 else _plain(part) for number, part in enumerate(parts))
    # Code beside code is one piece: two backticks would begin another kind.
    return shown.replace("``", "")


def _plain(text: str) -> str:
    pieces = re.split(r"((?:<[^<>\n]+>)+)", text.replace("\n", " "))
    return "".join(f"`{piece}`" if number % 2 else _signs(piece) for number, piece in enumerate(pieces))


def _signs(text: str) -> str:
    """What is no sign of Markdown's where it stands is left as it is."""
    for sign in "\\*":
        text = text.replace(sign, f"\\{sign}")
    # A link, a heading, attributes of the code before it.
    return re.sub(r"\](?=\()|^[#{]", r"\\\g<0>", text)
