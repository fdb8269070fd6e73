"""The paragraph that says what to do, and what has to be known of a run before its figures are believed."""

from __future__ import annotations

from collections.abc import Iterator

from bench.limit import NEAR
from bench.profiles import PROFILES, WARM
from bench.report.ahead import each as each_ahead
from bench.report.series import PROXY, Measured, Rows
from bench.resuming import ENDED

#: Where all setups tie.
NONE = "no difference"


def to_do(measured: Measured) -> list[str]:
    """Sentences. Of several prompts the first is judged."""
    if len(measured.setups) < 2:
        only = measured.setups[0] if measured.setups else "nothing"
        return [f"One setup was measured ({only}): there is nothing to choose between.",
                'Measure the others beside it: make bench TOPOLOGIES="solo cluster replicas".']  # fmt: skip
    told = []
    whole, ttft = (next(iter(measured.of(name)), None) for name in ("whole", "ttft"))
    if whole:
        told += [f"For the whole answer soonest: {_ranges(whole)}."]
    if ttft:
        told += [f"For the first token soonest: {_ranges(ttft)}."]
    decode = next(iter(measured.of("decode")), None)
    if decode:
        told += [f"For the most tokens a second: {_ranges(decode)}."]
    if whole and (knobs := _one_answer(measured, whole)):
        told += [knobs]
    return told


def _ranges(rows: Rows) -> str:
    """`cluster/mp for 1 to 16, no difference for 32`: neighbours of the same winners together."""
    parts: list[tuple[str, int, int]] = []
    for users, who in each_ahead(rows).items():
        # In the order of the run: by their means ties would come in another order each time.
        tied = sorted(who.names, key=rows.setups.index)
        name = NONE if len(tied) > 1 and tied == rows.setups else " or ".join(tied)
        if parts and parts[-1][0] == name:
            parts[-1] = (name, parts[-1][1], users)
        else:
            parts.append((name, users, users))
    if len(parts) == 1:
        return f"{parts[0][0]} at {'any' if parts[0][0] == NONE else 'every'} number of users"
    spans = [f"{low}" if low == high else f"{low} to {high}" for _, low, high in parts]
    return ", ".join(f"{name} for {span}" for (name, _, _), span in zip(parts, spans, strict=True))


def _one_answer(measured: Measured, whole: Rows) -> str:
    """Which setup loses least over all numbers of users, as knobs."""
    names = [name for name in whole.setups if all(name in whole.values[users] for users in whole.users)]
    if not names:
        return ""
    lost = {name: max(_behind(whole, users, name) for users in whole.users) for name in names}
    best = min(lost, key=lambda name: lost[name])
    setup = next(each for each in measured.run.setups if each.name == best)
    stages = f", pipeline_parallel = {setup.stages}" if setup.stages > 1 else ""
    knobs = {"cluster": f", executor = {setup.executor}{stages}", "replicas": f", routing = {setup.routing}"}
    where = f"topology = {setup.topology}{knobs.get(setup.topology, '')}"
    rest = "never behind" if lost[best] <= 0 else f"at worst {lost[best]:.0%} behind the best"
    return f"If the number of users is not known: {where}, {rest}."


def _behind(rows: Rows, users: int, name: str) -> float:
    means = {other: sum(values) / len(values) for other, values in rows.values[users].items()}
    return means[name] / min(means.values()) - 1


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
