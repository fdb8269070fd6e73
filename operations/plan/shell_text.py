"""What of a shell script is commands, what is quoted, and what is only handed on: enough to judge a run.sh by.

No parser: a script is sorted by its quotes, comments and here-documents. What only a shell could tell (a command made
of variables, a sourced file) is not seen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HERE = re.compile(r"<<(?P<dash>-?)\s*(?P<quote>['\"\\]?)(?P<word>\w+)['\"]?")
#: Characters after which a `#` begins a comment.
_BREAKS = " \t\n;&|()"


@dataclass
class ShellText:
    """A script, sorted.

    `code`: commands, with an empty pair of quotes where something was quoted. `filled`: what the shell fills
    variables into: the commands, double quotes, here-documents whose word is not quoted. `said`: the commands with
    all that is quoted in them, without comments and here-documents. `inner`: scripts given to another shell
    (`bash -c '...'`), sorted in their turn.
    """

    code: str = ""
    filled: str = ""
    said: str = ""
    inner: list[ShellText] = field(default_factory=list)

    @property
    def all(self) -> list[ShellText]:
        """This script, and those that it gives to another shell."""
        return [self, *(deep for each in self.inner for deep in each.all)]


def sort_out(text: str) -> ShellText:
    """A script; one that ends inside a quote is taken as far as it goes."""
    found = ShellText()
    text = text.replace("\r\n", "\n").replace("\\\n", " ")
    at, waiting = 0, list[re.Match[str]]()
    while at < len(text):
        char = text[at]
        if char == "\\":
            found.code += text[at : at + 2]
            found.said += text[at : at + 2]
            at += 2
        elif char == "#" and (at == 0 or text[at - 1] in _BREAKS):
            at = _line_end(text, at)
        elif char in "'\"":
            at = _quoted(text, at, found)
        elif here := _HERE.match(text, at) if not text.startswith("<<<", at) else None:
            waiting.append(here)
            at = here.end()
        elif text.startswith("<<<", at):
            found.code += "<<<"
            at += 3
        else:
            found.code += char
            found.filled += char
            found.said += char
            at += 1
            if char == "\n" and waiting:
                at = _documents(text, at, waiting, found)
                waiting = []
    return found


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _quoted(text: str, at: int, found: ShellText) -> int:
    quote = text[at]
    pattern = r"'[^']*'?" if quote == "'" else r'"(?:[^"\\]|\\.)*"?'
    whole = re.compile(pattern, re.DOTALL).match(text, at)
    assert whole
    content = whole.group().removeprefix(quote).removesuffix(quote)
    if re.search(r"(?:\b(?:ba|da)?sh\s+(?:-\w+\s+)*-\w*c|\beval)\s*$", found.code[-80:]):
        # `'...'"$X"'...'`: one word of several quotes is one script.
        end = whole.end()
        while end < len(text) and text[end] in "'\"":
            more = re.compile(r"'[^']*'?" if text[end] == "'" else r'"(?:[^"\\]|\\.)*"?', re.DOTALL).match(text, end)
            assert more
            content += more.group()[1:-1]
            end = more.end()
        found.inner.append(sort_out(content))
        found.code += '""'
        found.said += content
        return end
    found.code += '""'
    found.said += content
    if quote == '"':
        found.filled += content
    return whole.end()


def _documents(text: str, at: int, waiting: list[re.Match[str]], found: ShellText) -> int:
    """Behind the here-documents that the last line has announced."""
    for here in waiting:
        while at < len(text):
            end = _line_end(text, at)
            line = text[at:end]
            at = min(end + 1, len(text))
            if (line.lstrip("\t") if here["dash"] else line) == here["word"]:
                break
            if not here["quote"]:
                found.filled += line + "\n"
    return at
