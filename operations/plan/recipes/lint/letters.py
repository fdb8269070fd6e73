"""What is left in words by whoever wrote or filled in a recipe: quotes of a word processor, braces, blanks unseen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from operations.plan.config.refusal import Remark
from operations.plan.recipes.lint.subject import Subject
from operations.plan.recipes.recipe import MODEL

#: Signs that word processors put where " ' - and a blank were meant; those of no width are seen by nobody.
_MEANT = (
    dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\uff02", '"')
    | dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\uff07", "'")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-")
)
_MEANT |= dict.fromkeys("\u00a0\u2007\u202f\u3000", " ") | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", "")
_SIGNS = re.compile("[" + "".join(_MEANT) + "]")
#: Flags whose value is a text in a language, with whatever signs that has.
_PROSE = ("chat-template",)


def signs(of: Subject) -> Iterator[Remark]:
    """Typographic quotes, dashes and blanks: to a shell and to a parser they are letters."""
    for where, word in _words(of):
        if (found := _SIGNS.search(word)) and not _is_json(word):
            meant = "".join(_MEANT.get(char, char) for char in word)
            sign = f"`{found.group()}`" if found.group().isprintable() else "a sign that can't be seen"
            sign += f" (U+{ord(found.group()):04X})"
            yield Remark(True, f"{where}: {sign} in `{_short(word)}` is no ASCII", f"write `{_short(meant)}`")


def braces(of: Subject) -> Iterator[Remark]:
    """A placeholder that nothing has filled in."""
    told = " ".join(remark.problem for remark in of.recipe.remarks)
    # The plan fills in those of a launch, for each node.
    launch = "launch." if of.recipe.format == "sparkrun" else "{"
    for where, word in _words(of):
        plain = word.replace(f"{MODEL}/", "", 1) if word.startswith(f"{MODEL}/") else word
        for name in re.findall(r"(?<![{$])\{([A-Za-z_][\w.-]*)\}(?!\})", plain):
            if f"{{{name}}}" not in told and not name.startswith(launch):
                yield Remark(True, f"{where}: `{{{name}}}` is left over in `{_short(word)}`", "write its value")


def _words(of: Subject) -> Iterator[tuple[str, str]]:
    """Every word that the engine gets from the recipe, with what it belongs to."""
    for flag in of.recipe.flags:
        yield from ((flag.name, word) for word in flag.words if flag.name not in _PROSE)
    yield from of.recipe.env.items()
    yield from (("the program", word) for word in of.recipe.program)


def _is_json(word: str) -> bool:
    try:
        json.loads(word)
    except (ValueError, RecursionError):
        return False
    return True


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
