"""A run's figures as rows over users, one for each figure, target and prompt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bench import folder as folders
from bench.figures import Figures, Percentiles, figures
from bench.noise import Usual, usual
from bench.records import Request, Run, Step
from bench.slo import Slo
from operations.plan.config.refusal import Finding, Refusal, nearest

PROXY = "proxy"


@dataclass(frozen=True)
class Figure:
    """`read` gives it from a step's figures, in `unit`; None: it is not known there."""

    name: str
    title: str
    unit: str
    read: Callable[[Figures], float | None]
    less_is_better: bool = False
    #: Whether somebody can be ahead in it; else it is shown alone.
    is_judged: bool = True


def _ms(which: str, name: str) -> Callable[[Figures], float | None]:
    def read(found: Figures) -> float | None:
        percentiles: Percentiles | None = getattr(found, which)
        return getattr(percentiles, name) * 1000 if percentiles else None

    return read


def _share(name: str) -> Callable[[Figures], float | None]:
    def read(found: Figures) -> float | None:
        value: float | None = getattr(found, name)
        return None if value is None else value * 100

    return read


FIGURES = {
    each.name: each
    for each in (
        Figure("decode", "Decode", "tok/s", lambda found: found.decode_tok_s),
        Figure("together", "All answers over all the time", "tok/s", lambda found: found.whole_tok_s),
        Figure("prefill", "Prefill", "tok/s", lambda found: found.prefill_tok_s),
        Figure("ttft", "First token, median", "ms", _ms("ttft_s", "p50"), True),
        Figure("ttft_p90", "First token, p90", "ms", _ms("ttft_s", "p90"), True),
        Figure("ttft_p99", "First token, p99", "ms", _ms("ttft_s", "p99"), True),
        Figure("between", "Between tokens, median", "ms", _ms("between_s", "p50"), True),
        Figure("between_p99", "Between tokens, p99", "ms", _ms("between_s", "p99"), True),
        Figure("whole", "Whole answer, median", "ms", _ms("e2e_s", "p50"), True),
        Figure("whole_p99", "Whole answer, p99", "ms", _ms("e2e_s", "p99"), True),
        Figure("user", "What one user sees", "tok/s", lambda found: found.user_tok_s),
        Figure("target", "Requests within the target", "%", _share("slo_share")),
        Figure("share", "Busiest engine over an equal share", "times", lambda found: found.largest_share, True, False),
        Figure("cached", "Prompt tokens from the prefix cache", "%", _share("prefix_share"), is_judged=False),
        Figure("energy", "Energy for a token", "J", lambda found: found.joules_per_token, True),
        Figure("errors", "Requests that failed", "", lambda found: float(found.errors), True, False),
        Figure("wrong", "Known answers that were wrong", "", lambda found: float(found.wrong), True, False),
    )
}
#: What is plotted, and stands first.
MAIN = ("decode", "together", "prefill", "ttft", "between", "whole", "user")


@dataclass
class Rows:
    """One figure of one target and prompt: users -> setup -> repeats. `prompt` is empty where the profile has one."""

    figure: Figure
    target: str
    prompt: str
    setups: list[str]
    values: dict[int, dict[str, tuple[float, ...]]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def users(self) -> list[int]:
        """Numbers of users, the least first."""
        return sorted(self.values)

    @property
    def usual(self) -> Usual:
        """How much its repeats differ as a rule."""
        return usual(values for row in self.values.values() for values in row.values())


@dataclass(frozen=True)
class Measured:
    """A run that was read, with its figures."""

    path: Path
    run: Run
    steps: list[Step]
    requests: dict[str, list[Request]]
    rows: list[Rows]

    @property
    def setups(self) -> list[str]:
        """Those that came up, in their order."""
        return [each.name for each in self.run.setups if not each.why_not]

    def of(self, figure: str, target: str = PROXY) -> list[Rows]:
        """Every prompt's rows of a figure."""
        return [each for each in self.rows if each.figure.name == figure and each.target == target]

    @property
    def targets(self) -> list[str]:
        """The proxy first."""
        return sorted({each.target for each in self.rows}, key=lambda name: (name != PROXY, name))


def measured(path: Path) -> Measured:
    """Raises Refusal for what is no run, was cut, or has nothing in it yet."""
    run, steps, requests = folders.read(path)
    if not any(each for each in steps if not each.is_known):
        came = "; ".join(f"{each.name}: {each.why_not}" for each in run.setups if each.why_not)
        problem = f"has no measured step{f' ({came})' if came else ''}"
        raise Refusal(Finding(str(path), problem, "finish it: tandem bench with --run and what it was begun with"))
    return Measured(path, run, steps, requests, list(_rows(run, steps, requests)))


def _rows(run: Run, steps: Iterable[Step], requests: dict[str, list[Request]]) -> Iterable[Rows]:
    slo = Slo.of(run.slo)
    found: dict[tuple[str, str, str], Rows] = {}
    order = [each.name for each in run.setups]
    for step in steps:
        seen = figures(step, requests[step.name], slo)
        for name, figure in FIGURES.items():
            if step.is_known != (name == "wrong"):
                continue
            value = figure.read(seen)
            if value is None:
                continue
            key = (name, step.target, "" if step.is_known else step.which)
            rows = found.setdefault(key, Rows(figure, step.target, key[2], []))
            before = rows.values[step.users].get(step.setup, ())
            rows.values[step.users][step.setup] = (*before, value)
            if step.setup not in rows.setups:
                rows.setups.append(step.setup)
    for rows in found.values():
        rows.setups.sort(key=lambda name: order.index(name) if name in order else len(order))
    return found.values()


def chosen(text: str) -> list[str]:
    """FIGURES= as the owner names them; empty: all. Raises Refusal."""
    names = text.replace(",", " ").split()
    for name in names:
        if name not in FIGURES:
            known = f"they are: {', '.join(FIGURES)}"
            raise Refusal(Finding("--figures", f"no figure is named `{name}`", nearest(name, FIGURES, known)))
    return list(dict.fromkeys(names)) or list(FIGURES)
