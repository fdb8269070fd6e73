"""Figures of records that are made by hand: what each must be can be told on paper."""

from __future__ import annotations

from typing import Any

import pytest

from bench.figures import Percentiles, figures, percentiles
from bench.noise import compare, spread
from bench.records import Counters, NodeState, Request, Step
from bench.slo import Slo
from operations.plan.config.refusal import Refusal


def step(**changes: Any) -> Step:
    values: dict[str, Any] = {
        "name": "replicas/proxy/2/0",
        "setup": "replicas",
        "target": "proxy",
        "users": 2,
        "repeat": 0,
        "prompt_tokens": 100,
        "answer_tokens": 5,
        "began": 0.0,
        "took_s": 3.0,
        "requests": 2,
    }
    return Step(**values | changes)


def request(number: int = 0, sent: float = 0.0, first: float = 1.0, gap: float = 0.5, **changes: Any) -> Request:
    """100 tokens in, 5 out, one a piece."""
    pieces = [first + gap * n for n in range(5)]
    values: dict[str, Any] = {
        "step": "replicas/proxy/2/0",
        "conversation": number,
        "sent_s": sent,
        "first_s": first,
        "done_s": pieces[-1] + 0.1,
        "pieces_s": pieces,
        "prompt_tokens": 100,
        "answer_tokens": 5,
    }
    return Request(**values | changes)


def test_the_last_part_of_a_step_s_name_is_what_it_asks() -> None:
    where = {"setup": "cluster/mp", "target": "@fake/2/0"}
    named = "cluster/mp/@fake/2/0/2/0"
    names = (named, f"{named}/p4032", f"{named}/known")
    found = [step(name=name, **where) for name in names]
    assert [each.which for each in found] == ["", "p4032", "known"]
    assert [each.is_known for each in found] == [False, False, True]


def test_two_users_at_once_are_counted_as_llama_benchy_does() -> None:
    found = figures(step(), [request(0, first=1.0), request(1, first=2.0)], None)
    # From the first start to the last first token, and from the first token to the last: 2 s and 3 s.
    assert found.prefill_tok_s == pytest.approx(200 / 2)
    assert found.decode_tok_s == pytest.approx(8 / 3)
    # And from the first start to the very end, 4.1 s, the first tokens with them.
    assert found.whole_tok_s == pytest.approx(10 / 4.1)
    assert found.user_tok_s == pytest.approx(2.0)
    assert found.ttft_s == Percentiles(p50=1.5, p90=pytest.approx(1.9), p99=pytest.approx(1.99))  # type: ignore[arg-type]
    assert found.between_s is not None and found.between_s.p50 == pytest.approx(0.5)
    assert found.e2e_s is not None and found.e2e_s.p50 == pytest.approx(3.6)
    assert (found.requests, found.errors, found.wrong, found.slo_share) == (2, 0, 0, None)


def test_a_pause_between_requests_is_no_time_of_work() -> None:
    later = request(1, sent=100.0, first=101.0)
    found = figures(step(), [request(0), later], None)
    assert found.prefill_tok_s == pytest.approx(200 / 2) and found.decode_tok_s == pytest.approx(8 / 4)


def test_pieces_of_several_tokens_count_as_several_tokens() -> None:
    two_a_piece = request(answer_tokens=9)
    found = figures(step(), [two_a_piece], None)
    assert found.between_s is not None and found.between_s.p50 == pytest.approx(0.25)
    assert found.user_tok_s == pytest.approx(4.0)


def test_pieces_that_came_in_one_read_say_nothing_of_a_pace() -> None:
    found = figures(step(), [request(gap=0.001), request(gap=0.001)], None)
    assert (found.decode_tok_s, found.user_tok_s, found.between_s) == (None, None, None)
    beside = figures(step(), [request(gap=0.001), request()], None)
    assert beside.user_tok_s == pytest.approx(2.0) and beside.decode_tok_s == pytest.approx(8 / 2)


def test_what_failed_is_an_error_and_no_time_and_misses_the_target() -> None:
    broken = request(1, first=0.001, error="HTTP 500: no room")
    found = figures(step(), [request(0), broken], Slo.of("ttft=2s tpot=600ms"))
    assert (found.errors, found.slo_share) == (1, 0.5)
    assert found.ttft_s is not None and found.ttft_s.p50 == pytest.approx(1.0)
    assert figures(step(), [broken], None).decode_tok_s is None


@pytest.mark.parametrize(
    ("slo", "share"), [("ttft=900ms", 0.0), ("tpot=400ms", 0.0), ("tpot=500ms e2e=4s", 1.0), ("e2e=2s", 0.0)]
)
def test_every_part_of_a_target_has_to_be_met(slo: str, share: float) -> None:
    assert figures(step(), [request(gap=0.45)], Slo.of(slo)).slo_share == share


def test_the_busiest_engine_s_share_is_that_of_the_engines_own_counters() -> None:
    def engine(requests: int) -> Counters:
        return Counters(requests=requests, prompt_tokens=100, answer_tokens=5, prefix_asked=200, prefix_found=50)

    found = figures(step(engines={"a": engine(3), "b": engine(1)}), [request()], None)
    assert found.largest_share == pytest.approx(1.5) and found.share_cost == pytest.approx(1 / 3)
    assert found.prefix_share == pytest.approx(0.25)
    assert figures(step(engines={"a": engine(3)}), [request()], None).largest_share is None
    assert figures(step(engines={"a": engine(3), "b": engine(0)}, target="a"), [request()], None).largest_share is None
    assert figures(step(engines={"a": engine(2), "b": engine(0)}), [request()], None).largest_share == 2.0


def test_energy_is_told_where_every_node_has_a_meter() -> None:
    def state(joules: float | None) -> NodeState:
        return NodeState(energy_j=joules)

    before, after = {"a": state(100.0), "b": state(10.0)}, {"a": state(130.0), "b": state(30.0)}
    assert figures(step(before=before, after=after), [request()], None).joules_per_token == pytest.approx(10.0)
    without = {**after, "b": state(None)}
    assert figures(step(before=before, after=without), [request()], None).joules_per_token is None
    assert figures(step(before=before, after={"a": state(130.0)}), [request()], None).joules_per_token is None


def test_percentiles_lie_between_values() -> None:
    assert percentiles([]) is None
    found = percentiles([4.0, 1.0, 3.0, 2.0])
    assert found is not None and (found.p50, round(found.p99, 2)) == (2.5, 3.97)


@pytest.mark.parametrize("text", ["ttft", "ttft=2", "ttft=0s", "ttft=-1s", "speed=2s", "ttft=2s ttft=3s", "tpot=1e3ms"])
def test_a_target_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        Slo.of(text)
    assert len(refused.value.findings) == 1


def test_a_difference_within_the_noise_is_a_tie() -> None:
    near = compare([100.0, 104.0, 96.0], [98.0, 101.0, 95.0])
    assert near is not None and near.tie and near.relative == pytest.approx(2 / 98)
    far = compare([120.0, 121.0, 119.0], [100.0, 101.0, 99.0])
    assert far is not None and not far.tie and far.relative == pytest.approx(0.2)
    # Repeats that agree to the last digit are no proof of half a percent.
    exact = compare([100.5, 100.5], [100.0, 100.0])
    assert exact is not None and exact.tie


def test_of_single_measurements_a_spread_is_taken() -> None:
    one = compare([110.0], [100.0])
    assert one is not None and one.tie and one.noise == pytest.approx(0.146, abs=0.001)
    assert (two := compare([120.0], [100.0])) is not None and not two.tie
    assert compare([], [1.0]) is None and compare([1.0], [0.0]) is None
    assert spread([]) is None and (some := spread([1.0, 3.0])) is not None and (some.mean, some.low) == (2.0, 1.0)
