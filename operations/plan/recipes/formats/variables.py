"""Variables in a command's words: filled in where the recipe knows them, left to the container's shell, or refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from operations.plan.config.refusal import Remark
from operations.plan.recipes.bounds import COMMAND_CHARACTERS, too_long
from operations.plan.recipes.formats.shell import Word

_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")


def expanded(word: Word, env: Mapping[str, str], room: int = COMMAND_CHARACTERS) -> Word:
    """A word with the variables replaced that are known; its expansions are those that are left.

    Raises Beyond when it has more than `room` characters then.
    """
    parts, left, at, size = [], [], 0, len(word.text)
    for expansion in word.expansions:
        value = _value(expansion, env)
        if not value:
            left.append(expansion)
            continue
        begins = word.text.index(expansion, at)
        parts += [word.text[at:begins], value]
        at = begins + len(expansion)
        size += len(value)
        if size > room:
            raise too_long()
    return Word("".join([*parts, word.text[at:]]), tuple(left))


def are_left(word: Word) -> bool:
    """Whether there are expansions, all of them variables: a shell in the container can fill them in."""
    return bool(word.expansions) and all(_VARIABLE.match(each) for each in word.expansions)


def left(word: Word, defined: Collection[str]) -> list[Remark]:
    """A word about each variable that neither the recipe nor `defined` names."""
    return [
        Remark(
            False,
            f"`{each}` in `{word.text[:60]}` is left to the container's shell",
            "the image has to define it: the recipe does not",
        )
        for each in dict.fromkeys(word.expansions)
        if (name := _VARIABLE.match(each)) and name.group(1) not in defined
    ]


def undefined(word: Word) -> list[Remark]:
    """What no shell may fill in, refused by name."""
    return [
        Remark(True, f"`{each[:60]}` is a command in a word, and no start runs it", "write what it gives out")
        if each.startswith(("$(", "`"))
        else Remark(True, f"`{each[:60]}` in `{word.text[:60]}` is nowhere defined", "write its value")
        for each in word.expansions
    ]


def _value(expansion: str, env: Mapping[str, str]) -> str:
    """What a variable stands for; empty: it is not known."""
    simple = re.fullmatch(r"\$\{?([A-Za-z_]\w*)(?::?-([^}]*))?\}?", expansion)
    if not simple:
        return ""
    return env.get(simple.group(1)) or simple.group(2) or ""
