"""What is said beside the verdict, and what has to be known of a run before its figures are believed."""

from __future__ import annotations

from collections.abc import Iterator

from bench.advise import models
from bench.advise.kv import context
from bench.limit import NEAR
from bench.profiles import PROFILES, WARM
from bench.report.ahead import each as each_ahead
from bench.report.series import PROXY, Measured, Rows
from bench.report.verdict import cluster, joined, ranges
from bench.resuming import ENDED
from operations.plan.config.refusal import Refusal
from operations.plan.recipes.formats import FOLDER, load_recipe


def besides(measured: Measured) -> list[str]:
    """Which setup is best for the first token and for tokens a second, and for which prompts this was measured. With
    several prompts the first one is judged.
    """
    wanted = (("ttft", "the first token soonest"), ("decode", "the most tokens a second"))
    found = [(what, next(iter(measured.of(name)), None)) for name, what in wanted]
    lines = [f"For {what}: {_ranges(rows)}." for what, rows in found if rows and len(measured.setups) > 1]
    return [*lines, *filter(None, [cluster(measured)]), _bounds(measured)]


def _bounds(measured: Measured) -> str:
    """For which prompts the run has measured, and which commands tell of longer ones."""
    steps = [step for step in measured.steps if not step.is_known]
    told = (each.prompt_tokens or 0 for step in steps for each in measured.requests[step.name])
    most = max((step.prompt_tokens or 0 for step in steps), default=0) or max(told, default=0)
    of = f", with prompts up to {most:,} tokens" if most else ""
    said = f"All of it is measured{of}. Longer prompts may turn it: `tandem bench --profile long` measures them"
    tokens = _context(measured.run.recipe)
    if tokens is None:
        return f"{said}."
    return f'{said}, `tandem advise "8 users 32k"` computes them. The recipe takes {tokens:,} tokens with the answer.'


def _context(recipe: str) -> int | None:
    """Tokens that a request of a recipe of Tandem's own may have; None: not known, or the recipe is another's."""
    if not (FOLDER / f"{recipe}.yaml").is_file():
        return None
    try:
        found = load_recipe(recipe)
    except Refusal:
        return None
    return context(found, models.of(found))


def _ranges(rows: Rows) -> str:
    return joined(ranges(rows, each_ahead(rows)))


def warnings(measured: Measured) -> Iterator[str]:
    """What makes figures doubtful; a line each."""
    run = measured.run
    for setup in run.setups:
        if setup.why_not:
            yield f"{setup.name} did not come up: {setup.why_not}"
    if ENDED not in run.environment:
        yield "The run was broken off: some steps, or repeats of them, are missing."
    yield from _failed(measured)
    if run.client_requests_s and run.client_pieces_s:
        pieces = max((_pieces_s(measured, step.name, step.took_s) for step in measured.steps), default=0.0)
        if pieces > NEAR * run.client_pieces_s:
            yield (
                f"The client was near its own limit: {pieces:,.0f} pieces of streams a second, where it manages "
                f"{run.client_pieces_s:,.0f} against a server that costs nothing."
            )
    profile = PROFILES.get(run.profile)
    if profile and profile.is_fresh:
        found = [value for rows in measured.of("cached") for row in rows.values.values() for value in row.values()]
        most = max((share for values in found for share in values), default=0.0) / 100
        if most > WARM:
            yield f"Prompts of this profile are new each time; {most:.0%} of a step's tokens were in the prefix cache."


def _failed(measured: Measured) -> Iterator[str]:
    for name, what in (("errors", "requests failed"), ("wrong", "known answers were wrong")):
        sums: dict[str, float] = {}
        for rows in measured.rows:
            if rows.figure.name == name and rows.target == PROXY:
                for row in rows.values.values():
                    for setup, values in row.items():
                        sums[setup] = sums.get(setup, 0.0) + sum(values)
        for setup, count in sums.items():
            if count:
                first = next((each.error for step in measured.steps if step.setup == setup
                              for each in measured.requests[step.name] if each.error), "")  # fmt: skip
                reason = f" (the first: {first})" if first and name == "errors" else ""
                yield f"{setup}: {count:.0f} {what}{reason}."


def _pieces_s(measured: Measured, step: str, took_s: float) -> float:
    return sum(len(each.pieces_s) for each in measured.requests[step]) / took_s if took_s else 0.0
