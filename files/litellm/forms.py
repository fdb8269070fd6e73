"""Forms with a file in them (multipart/form-data), as far as the door has to know them: the engine gets the bytes."""

from __future__ import annotations

import re
from typing import Any

#: Parts of a form, and bytes of one that is no file. A transcription has a dozen, and a text before it.
PARTS, FIELD = 32, 64 << 10
#: Bytes of a form: it is looked through in one step of the loop, 0.04 s for so many. vLLM takes sounds of 25 MiB.
MOST = 64 << 20
#: What stands before a part: a file's name may have some hundred letters, of nine bytes each.
_HEAD = 4096
#: What is shorter than boundaries of real clients takes longer to be found.
_CHARSET = rb'(?:; *charset="?[\w-]+"?)?'
_BOUNDARY = re.compile(rb"multipart/form-data" + _CHARSET + rb'; *boundary=("?)([^";\s]{8,70})\1' + _CHARSET, re.I)
#: .NET writes names without quotes where it can.
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
#: Readers differ about an escaped backslash before a quote.
_WORD = rb'; *([\w-]{1,16}\*?)=("(?:[^"\\]|\\[^\\])*"|[^;"\s]+)'
_HEADER = re.compile(rb"content-disposition: *form-data((?:" + _WORD + rb"){1,8})", re.I)
_WORDS = re.compile(_WORD)
_NAME = re.compile(rb'"([^"\\]{1,64})"|(' + _TOKEN + rb"{1,64})")
#: As engines read a field that says yes.
_TRUE = ("true", "1", "yes", "on", "t", "y")
_FORM = "a form (multipart/form-data) with `model` and `file` is wanted"


def pieces(body: bytes, kind: bytes) -> list[memoryview]:
    """A form without its boundary, which is another one each time that a client sends the same."""
    found, whole, at = _BOUNDARY.fullmatch(kind.strip()), memoryview(body), 0
    between = list[memoryview]()
    if found:
        mark = b"--" + found[2]
        while (end := body.find(mark if not at else b"\r\n" + mark, at)) >= 0 and len(between) <= PARTS:
            between.append(whole[at:end])
            at = body.index(mark, end) + len(mark)
    return [*between, whole[at:]]


def _named(head: bytes) -> tuple[str, bool]:
    """The name of a part (empty: it has none that all readers read alike), and whether it is a file."""
    lines = head.split(b"\r\n")
    said = [each for each in lines if each[:19].lower() == b"content-disposition"]
    found = _HEADER.fullmatch(said[0]) if len(said) == 1 and not any(each[:1] in b" \t" for each in lines) else None
    words = [(name.lower(), value) for name, value in _WORDS.findall(found[1])] if found else []
    names = [_NAME.fullmatch(value) for word, value in words if word == b"name"]
    if len(names) != 1 or not names[0] or any(word == b"name*" for word, _ in words):
        return "", False
    is_file = any(word in (b"filename", b"filename*") for word, _ in words)
    return (names[0][1] or names[0][2]).decode(errors="replace"), is_file


def read(body: bytes, kind: bytes) -> dict[str, Any] | str:
    """Fields by their name, of `file` its bytes' number, of `stream` whether it is wanted; or what is wrong, in words.
    `kind`: the content-type.
    """
    found = _BOUNDARY.fullmatch(kind.strip())
    if not found:
        return _FORM
    if len(body) > MOST:
        return f"a form has {MOST >> 20} MiB at the most"
    mark = b"--" + found[2]
    fields: dict[str, Any] = {}
    # An empty line may stand before the first part (RFC 2046, 5.1.1).
    begin = 2 if body.startswith(b"\r\n") else 0
    if not body.startswith(mark + b"\r\n", begin):
        return _FORM
    at = begin + len(mark) + 2
    for _ in range(PARTS):
        end = body.find(b"\r\n" + mark, at)
        head = body.find(b"\r\n\r\n", at, at + _HEAD)
        if end < 0 or not at <= head <= end - 4:
            return f"{_FORM}; this one is not whole"
        name, is_file = _named(body[at:head])
        if not name:
            return f"{_FORM}; one of its parts has no plain name"
        length = end - head - 4
        # What two readers would read differently is not passed on. Lists have brackets behind their names.
        if name in fields and not name.endswith("[]"):
            return f"`{name}` stands twice in this form"
        if not is_file and length > FIELD:
            return f"`{name}`: {FIELD} bytes are the most"
        fields[name] = length if is_file else body[head + 4 : end].decode(errors="replace")
        at = end + 2 + len(mark)
        if body.startswith(b"--", at):
            fields["stream"] = str(fields.get("stream", "")).lower() in _TRUE
            return fields if isinstance(fields.get("file"), int) else _FORM
        if not body.startswith(b"\r\n", at):
            return f"{_FORM}; this one is not whole"
        at += 2
    return f"a form has {PARTS} parts at the most"
