"""Two setups of a run, step against step: `python -m tests.gpu.pairs FOLDER SETUP AGAINST` prints Markdown.

Steps of the same users and repeat were measured one after the other, so each is a pair of its own. By how many pairs
one setup is ahead, and how often chance alone would give as many (sign test, two-sided), needs no spread of repeats.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import comb
from pathlib import Path
from statistics import fmean, geometric_mean

from bench.figures import figures, percentiles
from bench.folder import read
from bench.records import Request, Step
from operations.plan.config.refusal import Refusal

Figure = Callable[[Step, list[Request]], float | None]


def _tokens(step: Step, requests: list[Request]) -> float | None:
    """Of all answers together, over the step's whole time."""
    return sum(each.answer_tokens or 0 for each in requests) / step.took_s


def _first(requests: list[Request]) -> list[float]:
    return [each.first_s - each.sent_s for each in requests if each.first_s is not None]


def _whole(step: Step, requests: list[Request]) -> float | None:
    found = percentiles([each.done_s - each.sent_s for each in requests])
    return found.p99 if found else None


def _late(step: Step, requests: list[Request]) -> float | None:
    found = percentiles(_first(requests))
    return found.p99 if found else None


FIGURES: dict[str, Figure] = {
    "tokens a second, all answers over the whole step": _tokens,
    "first token, mean": lambda step, requests: fmean(_first(requests)),
    "first token, p99": _late,
    "whole answer, p99": _whole,
    "prompt tokens found in the prefix cache": lambda step, requests: figures(step, requests, None).prefix_share,
}


def table(folder: Path, setup: str, against: str) -> str:
    """A row for each figure: the ratios by users, their mean, in how many pairs it is above 1, the chance of that."""
    _, steps, requests = read(folder)
    by_name = {step.name: step for step in steps if step.target == "proxy"}
    pairs = [
        (step, by_name[twin])
        for step in by_name.values()
        if step.setup == setup and step.users > 1 and (twin := step.name.replace(setup, against, 1)) in by_name
    ]
    users = sorted({step.users for step, _ in pairs})
    head = ["figure", *(f"{each} users" for each in users), "mean", "above 1", "by chance"]
    rows = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for name, figure in FIGURES.items():
        ratios = [
            (one.users, mine / other)
            for one, two in pairs
            if (mine := figure(one, requests[one.name])) and (other := figure(two, requests[two.name]))
        ]
        if not ratios:
            continue
        values = [ratio for _, ratio in ratios]
        cells = [" ".join(f"{ratio:.2f}" for each, ratio in ratios if each == number) for number in users]
        above = sum(value > 1 for value in values)
        cells += [f"**{geometric_mean(values):.3f}**", f"{above} of {len(values)}", f"{chance(above, len(values)):.1%}"]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def chance(above: int, pairs: int) -> float:
    """How often a coin falls so far from the middle."""
    as_far = sum(comb(pairs, each) for each in range(min(above, pairs - above) + 1))
    return min(1.0, 2 * as_far / float(2**pairs))


if __name__ == "__main__":
    try:
        print(table(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
    except (IndexError, Refusal) as error:
        sys.exit(str(error) if isinstance(error, Refusal) else "wanted: FOLDER SETUP AGAINST")
