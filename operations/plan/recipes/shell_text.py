"""What of a shell script is commands, what is quoted, and what is only handed on: enough to judge a run.sh by.

No parser: a script is sorted by its quotes, comments and here-documents. What only a shell could tell (a command made
of variables, a sourced file) is not seen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HERE = re.compile(r"<<(?P<dash>-?)\s*(?P<quote>['\"\\]?)(?P<word>\w+)['\"]?")
#: Characters after which a `#` begins a comment.
_BREAKS = " \t\n;&|()"
_PLAIN = re.compile(r"[^\\#'\"<\n]+")
_QUOTES = {"'": re.compile(r"'[^']*'?"), '"': re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)}
#: What stands before a script for another shell; characters that are looked back for it, and shells in shells.
_SHELL, _BACK, _DEEP = re.compile(r"(?:\b(?:ba|da)?sh\s+(?:-\w+\s+)*-\w*c|\beval)\s*$"), 80, 8


@dataclass(frozen=True)
class ShellText:
    """A script, sorted.

    `code`: commands, with an empty pair of quotes where something was quoted. `filled`: what the shell fills
    variables into: the commands, double quotes, here-documents whose word is not quoted. `said`: the commands with
    all that is quoted in them, without comments and here-documents. `inner`: scripts given to another shell
    (`bash -c '...'`), sorted in their turn.
    """

    code: str
    filled: str
    said: str
    inner: tuple[ShellText, ...] = ()

    @property
    def all(self) -> list[ShellText]:
        """This script, and those that it gives to another shell."""
        return [self, *(deep for each in self.inner for deep in each.all)]


def sort_out(text: str, deep: int = 0) -> ShellText:
    """A script; one that ends inside a quote is taken as far as it goes."""
    return _Sorter(text.replace("\r\n", "\n").replace("\\\n", " "), deep).sorted()


class _Sorter:
    """One way through a script. Texts are kept in pieces: such a script may be long."""

    def __init__(self, text: str, deep: int) -> None:
        self.text, self.deep, self.at = text, deep, 0
        self.code: list[str] = []
        self.filled: list[str] = []
        self.said: list[str] = []
        self.inner: list[ShellText] = []
        self.waiting: list[re.Match[str]] = []

    def sorted(self) -> ShellText:
        while self.at < len(self.text):
            self._step()
        return ShellText("".join(self.code), "".join(self.filled), "".join(self.said), tuple(self.inner))

    def _step(self) -> None:
        text, at = self.text, self.at
        if plain := _PLAIN.match(text, at):
            self._take(plain.group())
        elif text[at] == "\\":
            self._take(text[at : at + 2])
        elif text[at] == "#" and (at == 0 or text[at - 1] in _BREAKS):
            self.at = self._line_end(at)
        elif text[at] in "'\"":
            self._quoted()
        elif text.startswith("<<<", at):
            self._take("<<<")
        elif here := _HERE.match(text, at):
            self.waiting.append(here)
            self.at = here.end()
        elif text[at] == "\n" and self.waiting:
            self._take("\n")
            self._documents()
        else:
            self._take(text[at])

    def _take(self, piece: str) -> None:
        for each in (self.code, self.filled, self.said):
            each.append(piece)
        self.at += len(piece)

    def _line_end(self, at: int) -> int:
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def _quoted(self) -> None:
        """One word, of one quote or of several: `'...'"$X"'...'`."""
        content = []
        while self.at < len(self.text) and self.text[self.at] in "'\"":
            quote = self.text[self.at]
            whole = _QUOTES[quote].match(self.text, self.at)
            assert whole
            content.append(whole.group().removeprefix(quote).removesuffix(quote))
            if quote == '"':
                self.filled.append(content[-1])
            self.at = whole.end()
        if self.deep < _DEEP and _SHELL.search("".join(piece[-_BACK:] for piece in self.code[-4:])):
            self.inner.append(sort_out("".join(content), self.deep + 1))
        self.code.append('""')
        self.said.append("".join(content))

    def _documents(self) -> None:
        """Behind the here-documents that the last line has announced."""
        for here in self.waiting:
            while self.at < len(self.text):
                end = self._line_end(self.at)
                line = self.text[self.at : end]
                self.at = min(end + 1, len(self.text))
                if (line.lstrip("\t") if here["dash"] else line) == here["word"]:
                    break
                if not here["quote"]:
                    self.filled.append(line + "\n")
        self.waiting = []
