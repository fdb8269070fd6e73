"""What is known of a setup: measured rows, what follows from them, and the estimate behind them all.

A setup has one source: the first that has measured it. What none has measured is computed: replicas from one engine's
own curve, a cluster from the estimate with the kernels of the rows that there are, else the estimate alone. A source is
never multiplied with another one's ratio: a release's figures say nothing of another's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from bench.advise import models, physics
from bench.advise.curves import GRID, Base, Curve, Ratio, lawful, no_worse, ratio
from bench.advise.load import Load
from bench.advise.physics import Point
from bench.advise.setups import Figure, Kind, Setup

#: What counts as the same prompt and the same answer, in times.
SAME_PROMPT, SAME_ANSWER = 1.15, 2.5
#: Of a source that does not say its lengths: a short question.
SHORT, SHORT_ANSWER = 64, 128
#: Which setup tells most of another's kernels.
_ALIKE = {"solo": ("replicas", "cluster"), "cluster": ("cluster", "solo", "replicas")}
#: What lies so much beyond a bound is no slip of a clock.
SLACK = 1.05
#: Tokens that a step may give where tokens are drafted: what recipes draft at most, and one.
DRAFTED = 5


@dataclass(frozen=True)
class Estimated:
    """The estimate of a model, of any load."""

    model: models.Model
    kv_bytes: float
    constants: physics.Constants = physics.FITTED
    drafts: bool = False
    machine: physics.Machine = physics.SPARK

    def knows(self, setup: Setup) -> bool:
        """Its cluster is tensor-parallel: of stages it knows nothing."""
        return "pipeline_parallel" not in setup.how

    def engine(self, ranks: int, slower: tuple[float, float] = (1.0, 1.0)) -> physics.Engine:
        """One engine over so many nodes."""
        return physics.Engine(self.model, ranks, self.kv_bytes, self.constants, slower, self.machine)

    def over(self, setup: Setup, load: Load, slower: tuple[float, float] = (1.0, 1.0)) -> Base:
        """What a setup gives so many users at a load's lengths."""
        engine = self.engine(setup.ranks, slower)

        @functools.cache
        def one(users: int) -> Point:
            return engine.point(users, load.prompt, load.answer, load.cached)

        if setup.topology != "replicas":
            return one
        return lambda users: physics.several(one, setup.engines, setup.how, users)

    def least(self, setup: Setup, load: Load) -> Callable[[int], tuple[float, float]]:
        """Seconds of prefill and of a step below which no engine can be, by users; a clock may be off by a little."""
        engine, drafted = self.engine(setup.ranks), DRAFTED if self.drafts else 1
        tokens = load.prompt * (1 - load.cached)

        def seconds(users: int) -> tuple[float, float]:
            step = engine.least_step(max(users // setup.engines, 1), load.prompt) / drafted
            return engine.least_prefill(users * tokens / setup.engines) / SLACK, step / SLACK

        return seconds


@dataclass(frozen=True)
class Measured:
    """Rows over users of one table or run. `said`: what stands where no number is (`OOM`). `of`: the recipe and
    release, where they are not those that are asked about.
    """

    kind: Kind
    name: str
    prompt: int | None
    answer: int | None
    rows: Mapping[tuple[Setup, Figure], Mapping[int, tuple[float, ...]]]
    said: Mapping[tuple[Setup, int], str]
    of: str = ""

    def has(self, setup: Setup) -> bool:
        """Whether a setup was measured."""
        return (setup, "decode") in self.rows or (setup, "whole") in self.rows

    def users(self, setup: Setup) -> list[int]:
        """Its rows of one setup."""
        return sorted({*self.rows.get((setup, "decode"), {}), *self.rows.get((setup, "whole"), {})})

    def lengths(self) -> tuple[int, int]:
        """Tokens of a prompt and of an answer; those of a short question where it does not say."""
        return self.prompt or SHORT, self.answer or SHORT_ANSWER

    def covers(self, load: Load, setup: Setup) -> bool:
        """Whether a load is one that was measured, or lies between such."""
        users, (prompt, answer) = self.users(setup), self.lengths()
        return (
            users[0] <= load.users <= users[-1]
            and max(prompt / load.prompt, load.prompt / prompt) <= SAME_PROMPT
            and max(answer / load.answer, load.answer / answer) <= SAME_ANSWER
            and not load.cached
        )

    def means(self, setup: Setup) -> dict[str, dict[int, float]]:
        """Rows of a setup, each the mean of its repeats."""
        return {
            figure: {users: fmean(values) for users, values in rows.items()}
            for (of, figure), rows in self.rows.items()
            if of == setup
        }


@dataclass(frozen=True)
class Known:
    """A setup's curve, and where it is from."""

    curve: Curve
    kind: Kind
    words: str
    source: Measured | None = None
    ratio: Ratio | None = None


@dataclass
class Evidence:
    """Sources, the best first; `estimated` None: nothing is known of the model."""

    sources: Sequence[Measured]
    estimated: Estimated | None = None
    #: Rows that break a law, a line each: they are not taken.
    doubts: list[str] = field(default_factory=list)
    _known: dict[tuple[Setup, int, int, float], Known | None] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.sources = [self._lawful(each) for each in self.sources]

    def known(self, setup: Setup, load: Load) -> Known | None:
        """What is known of a setup at a load's lengths, for any number of users."""
        key = setup, load.prompt, load.answer, load.cached
        if key not in self._known:
            self._known[key] = self._find(setup, load)
        return self._known[key]

    def said(self, setup: Setup, users: int) -> str:
        """What somebody measured where there is no figure; empty: nothing is said."""
        for source in self.sources:
            if (setup, users) in source.said:
                return f"{source.said[setup, users]} ({source.name})"
        return ""

    def decode_alone(self, setup: Setup) -> str:
        """What is known of a setup that has no whole answer: tokens a second for so many users; empty: nothing."""
        for source in self.sources:
            for users, values in sorted(source.rows.get((setup, "decode"), {}).items()):
                of = f"{users} user{'s' * (users > 1)}"
                return f"decode alone is known, {fmean(values):g} tok/s for {of} ({source.name})"
        return ""

    def setups(self, topology: str, nodes: int = 0) -> list[Setup]:
        """In which ways a topology was measured over so many nodes (0: as a rule), as the best source has it."""
        for source in self.sources:
            rows = {setup for setup, _ in source.rows if setup.topology == topology}
            if found := sorted(each for each in rows if each.nodes == (nodes or Setup(topology).nodes)):
                return found
        return []

    def _find(self, setup: Setup, load: Load) -> Known | None:
        found = self._measured(setup, load) or self._computed(setup, load)
        fewer = replace(setup, on=setup.nodes - setup.group)
        if found and setup.topology == "replicas" and fewer.engines >= 2:
            less = self.known(fewer, load)
            return replace(found, curve=no_worse(found.curve, less.curve)) if less else found
        return found

    def _measured(self, setup: Setup, load: Load) -> Known | None:
        source = next((each for each in self.sources if each.has(setup)), None)
        if source is None:
            return None
        over = self._ratio(source, setup)
        if not over.has_first and self.estimated is None:
            return None
        curve = over.carried(self._base(setup, load), self._least(setup, load))
        return Known(curve, source.kind, source.name, source, over)

    def _computed(self, setup: Setup, load: Load) -> Known | None:
        if setup.topology == "replicas":
            engine = self.known(Setup("solo") if setup.group == 1 else self._pair(setup), load)
            if engine is None:
                return None
            curve = lawful({count: physics.several(engine.curve.at, setup.engines, setup.how, count) for count in GRID})
            kind: Kind = "estimate" if engine.kind == "estimate" else "computed"
            return Known(
                curve,
                kind,
                f"from one engine's own figures, {engine.words.removeprefix('from ')}" if engine.words else "",
            )
        if self.estimated is None or not self.estimated.knows(setup):
            return None
        slower, words = self._kernels(setup)
        base = self.estimated.over(setup, load, slower)
        points = {count: base(count) for count in GRID}
        return Known(lawful(points), "computed" if words else "estimate", words)

    def _pair(self, setup: Setup) -> Setup:
        known = self.setups("cluster", setup.group)
        return known[0] if known else Setup("cluster", "mp", setup.group)

    def _kernels(self, setup: Setup) -> tuple[tuple[float, float], str]:
        """How slow kernels are against the estimate, as another setup of the same rows says it."""
        assert self.estimated
        for source in self.sources:
            for topology in _ALIKE[setup.topology]:
                for other in sorted({of for of, _ in source.rows if of.topology == topology}):
                    if source.has(other) and self.estimated.knows(other):
                        return self._ratio(source, other).mean, f"from {other} of {source.name}"
        return (1.0, 1.0), ""

    def _ratio(self, source: Measured, setup: Setup) -> Ratio:
        prompt, answer = source.lengths()
        return ratio(source.means(setup), self._base(setup, Load(1, prompt, answer)), prompt, answer)

    def _base(self, setup: Setup, load: Load) -> Base:
        """The estimate; where there is none a prompt's time is as its tokens are, and a step's is the same."""
        if self.estimated and self.estimated.knows(setup):
            return self.estimated.over(setup, load)
        tokens = load.prompt * (1 - load.cached)
        return lambda users: Point(tokens * (users + 1) / 2, tokens * (users - 1) / 2, 1.0)

    def _least(self, setup: Setup, load: Load) -> Callable[[int], tuple[float, float]]:
        if self.estimated and self.estimated.knows(setup):
            return self.estimated.least(setup, load)
        return lambda _: (0.0, 0.0)

    def _lawful(self, source: Measured) -> Measured:
        """Without rows that no machine can have."""
        if self.estimated is None:
            return source
        prompt, answer = source.lengths()
        kept = {key: dict(rows) for key, rows in source.rows.items()}
        for (setup, figure), rows in source.rows.items():
            if not self.estimated.knows(setup):
                continue
            engine = self.estimated.engine(setup.ranks)
            for users, values in rows.items():
                value = fmean(values)
                most, why = {
                    "decode": (
                        self._most_decoded(engine, setup, users, prompt + answer // 2),
                        "the memory's bandwidth",
                    ),
                    "prefill": (setup.engines / engine.least_prefill(1.0), "the GPU's arithmetic"),
                }.get(figure, (0.0, ""))
                late = source.means(setup).get("whole", {}).get(users)
                if figure == "ttft" and late and value > late:
                    self._doubt(source, setup, users, f"a first token after {value:.1f} s of an answer of {late:.1f} s")
                    del kept[setup, figure][users]
                elif most and value > most * SLACK:
                    words = f"{value:,.0f} tok/s of {figure}, where {why} allows {most:,.0f}"
                    self._doubt(source, setup, users, words)
                    del kept[setup, figure][users]
        return replace(source, rows={key: rows for key, rows in kept.items() if rows})

    def _most_decoded(self, engine: physics.Engine, setup: Setup, users: int, context: float) -> float:
        """Tokens a second that can be read for: the best that any split over the engines gives."""
        assert self.estimated
        share = max(round(users / setup.engines), 1)
        drafted = DRAFTED if self.estimated.drafts else 1
        return max(users, share * setup.engines) / engine.least_step(share, context) * drafted

    def _doubt(self, source: Measured, setup: Setup, users: int, words: str) -> None:
        self.doubts.append(f"{source.name}, {setup}, {users} users: {words}; not taken")
