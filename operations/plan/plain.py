"""Text of somebody else's as one line that can be shown: no control characters, no secrets, no end of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

#: Characters of one message; the longest that is meant lists all tool parsers of vLLM.
LONGEST = 1500
HIDDEN = "***"
_WORD = r"(?:token|secret|api[_-]?key|password|passwd|credentials?)"
_NAME = re.compile(rf"(?i)(?:^|.*[_-]){_WORD}")
#: What stands behind a name that says secret: `--api-key X`, `HF_TOKEN=X`, `"token": "X"`, `Bearer X`, `//user:X@`.
_GIVEN = re.compile(
    rf"(?i)((?<![\w-])--?[\w-]*{_WORD}(?![\w-])[= ]+|(?<!\w)\w*{_WORD}['\"]?=|['\"]\w*{_WORD}['\"]: *"
    r"|\bbearer +|://[^\s/:@]*:(?=[^\s/@]*@))(\\?['\"])?([^\s'\"`,;@]+)"
)
#: What is a secret by its looks, whatever stands before it.
_SHAPE = re.compile(r"\b(hf_|sk-|ghp_|github_pat_|glpat-|nvapi-|xox[abp]-|AKIA)[\w-]{8,}")
#: From so many characters on a value is told by its beginning: a message may have cut it.
_BEGINNING = 6


def is_secret(name: str) -> bool:
    """Whether a variable's or a flag's name says that its value is a secret."""
    return _NAME.fullmatch(name) is not None


def secrets(value: Any, name: str = "") -> Iterator[str]:
    """The secrets within a value as YAML has it: by the name that they are under, by what stands before them."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from secrets(each, str(key))
    elif isinstance(value, list):
        for each in value:
            yield from secrets(each, name)
    elif isinstance(value, bool) or value is None:
        return
    elif is_secret(name):
        yield str(value)
    elif isinstance(value, str):
        yield from (found.group(3) for found in _GIVEN.finditer(value))


def hide(text: str, known: Iterable[str]) -> str:
    """The text without the secrets that are known, whole or cut."""
    for each in known:
        if len(each) >= _BEGINNING and each[:_BEGINNING] in text:
            text = re.sub(re.escape(each[:_BEGINNING]) + r"[^\s'\"`]*", HIDDEN, text.replace(each, HIDDEN))
    return text


def plain(text: str) -> str:
    """One line of at most LONGEST characters, printable, without what looks like a secret."""
    if len(text) > 2 * LONGEST:
        text = f"{text[:LONGEST]} ... {text[-LONGEST:]}"
    text = _SHAPE.sub(rf"\1{HIDDEN}", _GIVEN.sub(rf"\1\2{HIDDEN}", " ".join(text.split())))
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 300]} ... {text[-290:]}"
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
