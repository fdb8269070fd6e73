"""The words of a shell command, with what matters of bash: quotes, escapes, comments, operators, expansions.

It takes time in proportion to the text, whatever the text is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from operations.plan.recipes.bounds import COMMAND_CHARACTERS, COMMAND_WORDS, Beyond, too_long

_EXPANSION = re.compile(r"\$(?:\{[^}]*\}|\([^)]*\)|[A-Za-z_]\w*|[@*#?$!0-9])|`[^`]*`")
_OPERATORS = ("&&", "||", ";;", "2>&1", ">&2", "&>", ">>", "<<<", "<<-", "<<", ";", "|", "&", ">", "<", "(", ")")
#: The first character of the next line that is neither blank nor a comment.
_SAYS = re.compile(r"^(?:\\|[^\S\n])*+([^#\s\\])", re.MULTILINE)
_ENDS = "&|;<>()"
#: Those that need no file behind them, and all that a command goes on behind.
_WHOLE = ("2>&1", ">&2")
_REDIRECTIONS = (*_WHOLE, "&>", ">>", "<<<", ">", "<")
#: What bash takes for a blank; Python knows others, which come from web pages.
_BLANKS = " \t\r"
_CLOSING = {"{": "}", "(": ")", "`": "`"}


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
    #: What output goes into, in place of the log.
    files: list[str] = field(default_factory=list)


def split(text: str) -> Script:
    """A script as commands; raises ValueError for a quote that is not closed, Beyond for too many words."""
    return _Reader(text).read()


def _closing(text: str) -> dict[int, int]:
    """Where each bracket that is closed is closed."""
    found, opened = {}, []
    for bracket in re.finditer(r"[()]", text):
        if bracket.group() == "(":
            opened.append(bracket.start())
        elif opened:
            found[opened.pop()] = bracket.start()
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        if len(text) > COMMAND_CHARACTERS:
            raise too_long()
        # A blank behind a continuing backslash can't be seen, and nobody means it.
        self.text = re.sub(r"\\[ \t]+\n", "\\\n", text.replace("\r\n", "\n"))
        self.at = 0
        self.commands: list[list[Word]] = []
        self.current: list[Word] = []
        self.oddities: list[str] = []
        self.files: list[str] = []
        self.closing = _closing(self.text)
        self.words = 0
        #: Ends of the here-documents that begin behind this line.
        self.here: list[str] = []
        #: Where the next line begins that says anything, and whether it goes on with a flag.
        self.ahead = (-1, False)
        #: Behind these nothing of the kind is closed any more.
        self.last = {opening: self.text.rfind(closing) for opening, closing in _CLOSING.items()}

    def read(self) -> Script:
        while self.at < len(self.text):
            self._step()
        self._end()
        return Script(self.commands, self.oddities, self.files)

    def _step(self) -> None:
        text, at = self.text, self.at
        if text.startswith("\\\n", at):
            self.at += 2
        elif text[at] == "\\" and at + 1 == len(text):
            self.at += 1
        elif text[at] == "\n":
            self._line_end()
        elif text[at].isspace():
            if text[at] not in _BLANKS:
                self._odd("it has a blank that bash takes for a letter (a no-break space); it is read as a blank")
            self.at += 1
        elif text[at] == "#":
            self._comment()
        elif operator := next((each for each in _OPERATORS if text.startswith(each, at)), ""):
            self.at += len(operator)
            if operator in _REDIRECTIONS:
                self._redirection(operator, at)
            elif operator in ("<<", "<<-"):
                self._here_document()
            else:
                self._end()
        else:
            self.current.append(self._word())

    def _odd(self, what: str) -> None:
        if what not in self.oddities[-1:]:
            self.oddities.append(what)

    def _redirection(self, operator: str, at: int) -> None:
        """The word behind it is a file, and a number at once before it (`2>x`) what is written there."""
        if self.current and self.current[-1].text.isdigit() and self.text[at - 1 : at].isdigit():
            self.current.pop()
        if operator in _WHOLE:
            return
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        if self.at < len(self.text) and self.text[self.at] not in "\n" + _ENDS:
            file = self._word().text
            self.files += [file] if ">" in operator and file != "/dev/null" else []

    def _here_document(self) -> None:
        """The word behind `<<` ends the document, which begins in the next line."""
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        if self.at < len(self.text) and self.text[self.at] not in "\n" + _ENDS:
            self.here.append(self._word().text)

    def _skip_here_documents(self) -> None:
        for end in self.here:
            found = re.compile(rf"^\t*{re.escape(end)}$", re.MULTILINE).search(self.text, self.at)
            if not found:
                raise ValueError("a here-document is not closed")
            self.at = min(found.end() + 1, len(self.text))
        self.here = []

    def _comment(self) -> None:
        end = self.text.find("\n", self.at)
        line = self.text[self.at : end if end >= 0 else len(self.text)]
        self.at += len(line)
        if self.current and self._reads_on(self.at + 1):
            self._odd(f"bash would end the command at the comment `{line.strip()[:60]}`; it is read on")
            self.at += 1

    def _line_end(self) -> None:
        self.at += 1
        if self.here:
            self._skip_here_documents()
        elif self.current and self._reads_on(self.at):
            last = self.current[-1].text
            self._odd(f"bash would end the command after `{last[:60]}`: a backslash is missing; it is read on")
            return
        self._end()

    def _reads_on(self, at: int) -> bool:
        """Whether the next line that says anything goes on with a flag."""
        if at > self.ahead[0]:
            found = _SAYS.search(self.text, at)
            self.ahead = (found.start(1), found.group(1) == "-") if found else (len(self.text), False)
        return self.ahead[1]

    def _end(self) -> None:
        if self.current:
            self.commands.append(self.current)
            self.current = []

    def _word(self) -> Word:
        self.words += 1
        if self.words > COMMAND_WORDS:
            raise Beyond(f"its command has more than {COMMAND_WORDS:,} words", "a recipe's command serves a model")
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
            elif char.isspace() or char in _ENDS:
                break
            elif found := self._expands():
                self._expansion(found, text, expansions)
            else:
                if char == "~" and not text:
                    # A home: whose, the recipe can't know.
                    expansions.append(char)
                text.append(char)
                self.at += 1
        return Word("".join(text), tuple(expansions))

    def _expands(self) -> re.Match[str] | None:
        """The expansion that begins here."""
        char, following = self.text[self.at], self.text[self.at + 1 : self.at + 2]
        if char == "$" and following == "(" and (end := self.closing.get(self.at + 1)):
            return re.compile(r"[\s\S]*").match(self.text, self.at, end + 1)
        if char not in "$`" or self.last.get("`" if char == "`" else following, self.at + 1) <= self.at:
            return None
        return _EXPANSION.match(self.text, self.at)

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
            elif found := self._expands():
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
