"""Patterns of a recipe's proof: Python's `re`, without what takes for ever on a line that does not match."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

#: Characters of a pattern.
LONGEST = 500
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT)


def fault(text: str) -> str:
    """Why a pattern can't be used; empty: it can.

    A repetition within a repetition (`(a+)+`), or a choice or a reference back within one, tries each way to divide a
    line: with thirty characters that is a thousand million ways. What is left is bounded where lines are read.
    """
    if len(text) > LONGEST:
        return f"it has more than {LONGEST} characters"
    try:
        re.compile(text)
        tree = parser.parse(text)
    except (re.error, OverflowError, RecursionError) as error:
        return f"is not a regular expression: {error}"
    return next(_faults(tree, within=False), "")


def _faults(tree: Any, *, within: bool) -> Iterator[str]:
    for code, argument in tree:
        inside = within
        if code in _REPEATS or code is codes.POSSESSIVE_REPEAT:
            least, most, _ = argument
            if within and least != most:
                yield "has a repetition within a repetition, which can take for ever: write it flat"
            inside = within or most > 1
        elif within and code is codes.BRANCH:
            yield "has a choice within a repetition, which can take for ever: write it flat"
        elif code in (codes.GROUPREF, codes.GROUPREF_EXISTS):
            yield "refers back to a group, which can take for ever: write it out"
        for below in _below(argument):
            yield from _faults(below, within=inside)


def _below(argument: Any) -> Iterator[Any]:
    """The patterns within a node, however deep its tuples have them."""
    if isinstance(argument, parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for each in argument:
            yield from _below(each)
