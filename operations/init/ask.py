"""Questions on the terminal: each says its default, takes a wrong word with one line, and asks again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.console import Console

from operations.plan.config.refusal import Refusal, nearest

Value = TypeVar("Value")
YES, NO = ("y", "yes"), ("n", "no")


class Ended(Exception):
    """The input ended (Ctrl-D) at a question."""


class Asker:
    """Asks where there is a terminal. `is_asking` False: nothing is asked, and defaults hold."""

    def __init__(self, console: Console, is_asking: bool) -> None:
        self.console = console
        self.is_asking = is_asking

    def say(self, text: str = "") -> None:
        """One line, as it is: nothing in it is markup, and a command can be copied from it."""
        self.console.print(text, soft_wrap=True, markup=False, highlight=False, emoji=False)

    def ask(self, question: str, default: str, read: Callable[[str], Value]) -> Value:
        """What `read` makes of the answer; where it raises Refusal the question comes again. Raises Ended."""
        while True:
            hint = f" [{default}]" if default else ""
            try:
                # The console's own input would fold a long one, between the question and its default.
                words = f"[bold]{_literal(question)}[/bold]{_literal(hint)}: "
                self.console.print(words, end="", soft_wrap=True, emoji=False)
                said = input().strip()
            except EOFError:
                raise Ended(question) from None
            except UnicodeDecodeError:
                self.say("  that is no text; type it again")
                continue
            try:
                return read(said or default)
            except Refusal as refusal:
                for finding in refusal.findings:
                    self.say(f"  {finding.problem}; {finding.remedy}")

    def yes(self, question: str, default: bool = False) -> bool:
        """Whether the answer is yes; where nobody is asked, no."""
        if not self.is_asking:
            return False
        words = "Y/n" if default else "y/N"
        while True:
            said = self.ask(question, words, str).lower()
            if said in (*YES, *NO) or said == words.lower():
                return said in YES or (said == words.lower() and default)
            self.say("  y or n, or Enter alone")


def _literal(text: str) -> str:
    """Brackets that are not rich's markup."""
    return text.replace("[", r"\[")


def numbered(words: Sequence[str]) -> Callable[[str], str]:
    """Takes a number of a list that was shown, or one of its words."""
    from operations.plan.config.refusal import Finding

    def read(said: str) -> str:
        if said.isdigit() and 1 <= int(said) <= len(words):
            return words[int(said) - 1]
        if said.lower() in words:
            return said.lower()
        otherwise = f"a number from 1 to {len(words)}, or a word: {', '.join(words)}"
        raise Refusal(Finding("", f"`{said}` is none of them", nearest(said.lower(), words, otherwise)))

    return read
