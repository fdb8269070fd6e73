"""The words of a shell command, with what matters of bash: quotes, escapes, comments, operators, expansions."""

from __future__ import annotations

import re
from dataclasses import dataclass

_EXPANSION = re.compile(r"\$(?:\{[^}]*\}|\([^)]*\)|[A-Za-z_]\w*|[@*#?$!0-9])|`[^`]*`")
_OPERATORS = ("&&", "||", ";;", "2>&1", ">&2", "&>", ">>", "<<", ";", "|", "&", ">", "<", "(", ")")


@dataclass(frozen=True)
class Word:
    """One word as bash would pass it; `expansions`: what bash would have replaced in it, as written."""

    text: str
    expansions: tuple[str, ...] = ()


@dataclass
class Script:
    """What `split` found: commands as their words. `oddities`: where bash would not have read on, and this did."""

    commands: list[list[Word]]
    oddities: list[str]


def split(text: str) -> Script:
    """A script as commands; raises ValueError for a quote that is not closed."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        # A blank behind a continuing backslash can't be seen, and nobody means it.
        self.text = re.sub(r"\\[ \t]+\n", "\\\n", text.replace("\r\n", "\n"))
        self.at = 0
        self.commands: list[list[Word]] = []
        self.current: list[Word] = []
        self.oddities: list[str] = []

    def read(self) -> Script:
        while self.at < len(self.text):
            self._step()
        self._end()
        return Script(self.commands, self.oddities)

    def _step(self) -> None:
        rest = self.text[self.at :]
        if rest.startswith("\\\n"):
            self.at += 2
        elif rest == "\\":
            self.at += 1
        elif rest[0] == "\n":
            self._line_end()
        elif rest[0].isspace():
            self.at += 1
        elif rest[0] == "#":
            self._comment(rest)
        elif operator := next((each for each in _OPERATORS if rest.startswith(each)), ""):
            self.at += len(operator)
            self._end()
        else:
            self.current.append(self._word())

    def _comment(self, rest: str) -> None:
        line, _, following = rest.partition("\n")
        self.at += len(line)
        if self.current and self._reads_on(following):
            self.oddities.append(f"bash would end the command at the comment `{line.strip()[:60]}`; it is read on")
            self.at += 1

    def _line_end(self) -> None:
        following = self.text[self.at + 1 :]
        self.at += 1
        if self.current and self._reads_on(following):
            last = self.current[-1].text
            self.oddities.append(
                f"bash would end the command after `{last[:60]}`: a backslash is missing; it is read on"
            )
            return
        self._end()

    @staticmethod
    def _reads_on(following: str) -> bool:
        """Whether the next line that says anything goes on with a flag."""
        lines = (line.strip() for line in following.splitlines())
        return next((line for line in lines if line.strip("\\ ") and not line.startswith("#")), "").startswith("-")

    def _end(self) -> None:
        if self.current:
            self.commands.append(self.current)
            self.current = []

    def _word(self) -> Word:
        text: list[str] = []
        expansions: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "'":
                text.append(self._single())
            elif char == '"':
                self._double(text, expansions)
            elif char == "\\":
                if not self._escaped(text):
                    break
            elif char.isspace() or any(self.text.startswith(each, self.at) for each in _OPERATORS if each != "2>&1"):
                break
            elif found := _EXPANSION.match(self.text, self.at):
                self._expansion(found, text, expansions)
            else:
                if char == "~" and not text:
                    # A home: whose, the recipe can't know.
                    expansions.append(char)
                text.append(char)
                self.at += 1
        return Word("".join(text), tuple(expansions))

    def _single(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise ValueError(f"a single quote is not closed: {self.text[self.at : self.at + 40]!r}")
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        return inside

    def _double(self, text: list[str], expansions: list[str]) -> None:
        start = self.at
        self.at += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`", "\n"):
                text.append(self.text[self.at + 1].replace("\n", ""))
                self.at += 2
            elif found := _EXPANSION.match(self.text, self.at):
                self._expansion(found, text, expansions)
            else:
                text.append(char)
                self.at += 1
        raise ValueError(f"a double quote is not closed: {self.text[start : start + 40]!r}")

    def _escaped(self, text: list[str]) -> bool:
        """A backslash outside quotes; False: it continues the line, and ends the word."""
        following = self.text[self.at + 1 : self.at + 2]
        if following == "\n":
            # `a\` at once followed by the next line's first column is one word to bash; blanks end it.
            self.at += 2
            return self.at < len(self.text) and not self.text[self.at].isspace()
        text.append(following)
        self.at += 2
        return True

    def _expansion(self, found: re.Match[str], text: list[str], expansions: list[str]) -> None:
        text.append(found.group())
        expansions.append(found.group())
        self.at = found.end()
