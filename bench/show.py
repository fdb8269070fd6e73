"""What the terminal shows: a line for each step, and on a screen a bar with what is left."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from bench.figures import Figures
from bench.steps import Wanted


class Show:
    """`setups`: how many there are to measure. A terminal that is gone is no reason to end."""

    def __init__(self, setups: int) -> None:
        # A pipe has no width: nothing is cut there.
        self._console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
        self._progress = Progress(
            *columns, console=self._console, transient=True, refresh_per_second=2, disable=not sys.stdout.isatty()
        )
        self._task: TaskID | None = None
        self._setups, self._begun = setups, 0
        self._left: dict[str, float] = {}
        #: Seconds that one unit of work has taken in this run, and what was measured for that.
        self._spent, self._worked = 0.0, 0.0
        self._since = time.monotonic()
        self.warnings: list[str] = []

    def __enter__(self) -> Show:
        self._progress.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        try:
            self._progress.stop()
        except OSError:
            pass

    def say(self, text: str) -> None:
        """A line."""
        try:
            self._console.print(text, markup=False, soft_wrap=True)
        except OSError:
            pass

    def table(self, table: Table) -> None:
        """The end of a run."""
        try:
            self._console.print("", table, sep="\n")
        except OSError:
            pass

    def warn(self, text: str) -> None:
        """A line that is said again at the end."""
        self.warnings.append(text)
        self.say(f"  ! {text}")

    def setup(self, name: str) -> None:
        """Another one begins."""
        self._begun += 1
        self.say(f"{name} ({self._begun} of {self._setups})")

    def steps(self, setup: str, wanted: Sequence[Wanted]) -> None:
        """What this setup has left."""
        self._left = {step.name: _work(step) for step in wanted}
        self.over()
        self._task = self._progress.add_task(setup, total=sum(self._left.values()), left=f"{len(wanted)} steps")

    def over(self) -> None:
        """A setup is measured: its bar goes."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = None

    def begin(self, step: Wanted) -> None:
        """Show that this step is measured from now on, and how long the rest of its setup takes."""
        self._since = time.monotonic()
        if self._task is not None:
            self._progress.update(self._task, description=step.name, left=self._rest())

    def end(self, step: Wanted, found: Figures) -> None:
        """Its figures, in a line."""
        self._spent += time.monotonic() - self._since
        self._since = time.monotonic()
        self._worked += self._left.get(step.name, 0.0)
        self._advance(step)
        words = [
            f"{step.name:<34}",
            f"decode {_number(found.decode_tok_s)} tok/s",
            f"prefill {_number(found.prefill_tok_s)}",
            f"ttft {_number(found.ttft_s.p50 * 1000 if found.ttft_s else None)} ms",
            f"a user {_number(found.user_tok_s)}",
            *([f"share {found.largest_share:.2f}"] if found.largest_share else []),
            *([f"{found.errors} of {found.requests} failed"] if found.errors else []),
            *([f"{found.wrong} wrong"] if found.wrong else []),
        ]
        self.say("  " + "  ".join(words) + ("" if self._progress.disable is False else f"  {self._rest()}"))

    def skipped(self, step: Wanted) -> None:
        """It was not answered before."""
        self._advance(step)
        self.say(f"  {step.name:<34}  left out: nothing of it was answered before")

    def unneeded(self, step: Wanted) -> None:
        """A repeat that the time or what is known already makes needless."""
        self._advance(step)

    def _advance(self, step: Wanted) -> None:
        done = self._left.pop(step.name, 0.0)
        if self._task is not None:
            self._progress.update(self._task, advance=done, left=self._rest())

    def _rest(self) -> str:
        """Steps and time that are left of this setup. Others are not known before their first step."""
        if not self._worked:
            return f"{len(self._left)} steps left"
        seconds = sum(self._left.values()) * self._spent / self._worked
        return f"{len(self._left)} steps left, about {_duration(seconds)}"


def _work(step: Wanted) -> float:
    """How long a step takes, against others: more users share an engine's time better than they divide it."""
    return (step.answer + (step.prompt or 0) / 10) * math.sqrt(step.users)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _number(value: float | None) -> str:
    if value is None:
        return f"{'-':>7}"
    return f"{value:>7,.0f}" if value >= 1000 else f"{value:>7.1f}"
