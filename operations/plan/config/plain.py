"""Text that somebody else has written, as one line that can be shown."""

from __future__ import annotations

#: Characters of a line; the longest that is meant lists all tool parsers of vLLM.
LONGEST = 1500


def plain(text: str) -> str:
    """One line of printable characters; the middle of one that has more than LONGEST is left out."""
    text = " ".join(text.split())
    if len(text) > LONGEST:
        # The end begins with a whole word: half of one could be half of a secret that nobody knows any more.
        text = f"{text[: LONGEST - 305]} ... {text[-300:].partition(' ')[2]}"
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
