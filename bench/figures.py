"""The figures of one step, from its records alone.

Rates are over the time in which there was something to do: prefill over the time in which at least one request waited
for its first token, decode over the time in which at least one answer was being written. Where all requests begin
together that is what llama-benchy computes, from the first start to the last first token, and from the first token to
the last; where they follow each other, no pause between them is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from bench.records import Request, Step
from bench.slo import Slo
from bench.timing import behind_first, last_text, seconds_a_token

#: Seconds. What was written in less came in one read: it says nothing of a pace, and one such step would be the mean.
WRITTEN_S = 0.01


@dataclass(frozen=True)
class Percentiles:
    """Seconds; between two values the share of the way."""

    p50: float
    p90: float
    p99: float


@dataclass(frozen=True)
class Figures:
    """None: nothing is known of it (no answer came, the node has no such meter, no target was given)."""

    #: Tokens a second of all users together. Prompt tokens count as the server counts them, cached ones included.
    prefill_tok_s: float | None
    #: The first token of an answer is the prefill's. None where all that is behind it came within WRITTEN_S.
    decode_tok_s: float | None
    #: Tokens of all answers over all the time, from the first request to the end of the last: what users get in all.
    #: Where all are served in step, `decode_tok_s` counts the writing alone and looks faster.
    whole_tok_s: float | None
    #: From sending to the first text.
    ttft_s: Percentiles | None
    #: Between a token and the next of the same answer; a piece of several tokens counts as several.
    between_s: Percentiles | None
    #: From sending to the end.
    e2e_s: Percentiles | None
    #: Tokens a second of one answer behind its first token: the median user's.
    user_tok_s: float | None
    #: Of all requests, those that met every part of the target; one that failed has not.
    slo_share: float | None
    #: What the busiest engine had of the requests, over an equal share: 1.0 is ideal, 2.0 all on one of two.
    largest_share: float | None
    #: What that costs at most, of all engines' time together: the others are idle while the busiest goes on.
    share_cost: float | None
    #: Requests without a whole answer.
    errors: int
    #: Known answers that came back otherwise.
    wrong: int
    #: Of the prompt tokens, those that lay in the prefix cache.
    prefix_share: float | None
    #: Of the nodes' GPUs, over all tokens of answers.
    joules_per_token: float | None
    requests: int


def figures(step: Step, requests: Sequence[Request], slo: Slo | None) -> Figures:
    """The figures of a step and its requests. Requests that failed count as errors and in the target alone."""
    whole = [each for each in requests if not each.error and each.first_s is not None]
    paced = [each for each in whole if last_text(each) - _first(each) >= WRITTEN_S]
    share = largest_share(step)
    return Figures(
        prefill_tok_s=_rate(
            sum(each.prompt_tokens or 0 for each in whole), [(each.sent_s, _first(each)) for each in whole]
        ),
        decode_tok_s=_rate(
            sum(behind_first(each) for each in whole), [(_first(each), last_text(each)) for each in whole], WRITTEN_S
        ),
        whole_tok_s=_rate(
            sum(each.answer_tokens or 0 for each in whole),
            [(min(each.sent_s for each in whole), max(each.done_s for each in whole))] if whole else [],
        ),
        ttft_s=percentiles([_first(each) - each.sent_s for each in whole]),
        between_s=percentiles([gap for each in paced for gap in _gaps(each)]),
        e2e_s=percentiles([each.done_s - each.sent_s for each in whole]),
        user_tok_s=_median([1 / pace for each in paced if (pace := seconds_a_token(each))]),
        slo_share=None if slo is None or not requests else sum(slo.met(each) for each in requests) / len(requests),
        largest_share=share,
        share_cost=None if share is None else 1 - 1 / share,
        errors=sum(bool(each.error) for each in requests),
        wrong=sum(each.right is False for each in requests),
        prefix_share=_prefix_share(step, whole),
        joules_per_token=_joules_per_token(step, whole),
        requests=len(requests),
    )


def percentiles(values: Sequence[float]) -> Percentiles | None:
    """None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return Percentiles(*(_at(ordered, share) for share in (0.5, 0.9, 0.99)))


def _at(ordered: Sequence[float], share: float) -> float:
    """The value below which that share lies, between two by the way from one to the other."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def largest_share(step: Step) -> float | None:
    """None where one engine alone serves, or none has said what it did."""
    counts = [engine.requests for engine in step.engines.values() if engine.requests is not None]
    if step.target != "proxy" or len(counts) < 2 or not sum(counts):
        return None
    return max(counts) * len(counts) / sum(counts)


def _first(request: Request) -> float:
    assert request.first_s is not None
    return request.first_s


def _gaps(request: Request) -> Iterable[float]:
    """Seconds between tokens. Pieces of several tokens are shared out evenly: nothing is known of the inside."""
    pieces = request.pieces_s
    tokens = behind_first(request)
    if len(pieces) < 2 or not tokens:
        return []
    held = max(tokens / (len(pieces) - 1), 1.0)
    return [(after - before) / held for before, after in pairwise(pieces)]


def _rate(tokens: int, spans: Iterable[tuple[float, float]], least_s: float = 0.0) -> float | None:
    """Tokens a second over the time that at least one of the spans covers. None where that is `least_s` or less."""
    seconds, end = 0.0, float("-inf")
    for since, until in sorted(spans):
        seconds += max(until - max(since, end), 0.0)
        end = max(end, until)
    return tokens / seconds if tokens and seconds > least_s else None


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _prefix_share(step: Step, requests: Sequence[Request]) -> float | None:
    """The engines' own counters, or else what the server says of each request."""
    asked = [engine.prefix_asked for engine in step.engines.values() if engine.prefix_asked is not None]
    found = [engine.prefix_found for engine in step.engines.values() if engine.prefix_found is not None]
    if sum(asked):
        return sum(found) / sum(asked)
    said = [each for each in requests if each.cached_tokens is not None and each.prompt_tokens]
    if not said:
        return None
    return sum(each.cached_tokens or 0 for each in said) / sum(each.prompt_tokens or 0 for each in said)


def _joules_per_token(step: Step, requests: Sequence[Request]) -> float | None:
    """None where one of the nodes has no meter: the others' would be a part, and look like the whole."""
    tokens = sum(each.answer_tokens or 0 for each in requests)
    if not step.after or not tokens or set(step.before) != set(step.after):
        return None
    joules = 0.0
    for node, after in step.after.items():
        before = step.before[node].energy_j
        if before is None or after.energy_j is None:
            return None
        joules += after.energy_j - before
    return joules / tokens
