"""Text that somebody else has written, as one line that can be shown."""

from __future__ import annotations

#: Characters of a line; the longest that is meant lists all tool parsers of vLLM.
LONGEST = 1500


def plain(text: str) -> str:
    """One line of at most LONGEST characters, all of them printable; the middle of a longer one is left out."""
    if len(text) > 2 * LONGEST:
        text = f"{text[:LONGEST]} ... {text[-LONGEST:]}"
    text = " ".join(text.split())
    if not text.isprintable():
        text = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 305]} ... {text[-300:]}"
