"""What fits, who waits, and who is chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.advise import kv, models
from bench.advise.asking import question
from bench.advise.choose import APART, COMPUTED, by_figure, choose, crossings, error_between
from bench.advise.evidence import Evidence
from bench.advise.load import Load, read
from bench.advise.options import Outlook, Question
from bench.advise.setups import Setup
from bench.noise import LEAST
from operations.plan.config.refusal import Refusal
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.recipe import Flag, Recipe
from tests.benchmark_advise.test_evidence import CLUSTER, REPLICAS, SOLO, Rows, source

CUTLASS = load_recipe("nemotron-3-super-nvfp4-cutlass")
NOWHERE = Path("/nonexistent")


def asked(rows: Rows, recipe: Recipe = CUTLASS) -> Question:
    return Question(recipe, models.of(recipe), 2, Evidence([source(rows)]))


def outlooks(question: Question, load: Load) -> list[Outlook]:
    return [question.outlook(setup, load) for setup in question.setups()]


def row(prefill: float, decode: float, ttft: float, setup: Setup, users: int = 8) -> Rows:
    return {
        (setup, "prefill"): {users: (prefill,)},
        (setup, "decode"): {users: (decode,)},
        (setup, "ttft"): {users: (ttft,)},
    }


LOAD = Load(8, 1024, 128)


def test_room_by_bytes_and_by_the_recipe() -> None:
    model = models.of(CUTLASS)
    solo, cluster, replicas = (kv.room(CUTLASS, model, each, 2, LOAD) for each in ("solo", "cluster", "replicas"))
    # 0.7 of 119.7 GiB, less 69.5 of weights and 3: 11.29 GiB; 160 MiB of state and 1,152 tokens of 4 KiB a request.
    assert (solo.fit, solo.let_in, solo.at_once, solo.words) == (70, 10, 10, "max-num-seqs")
    assert cluster.fit and cluster.fit > 500 and cluster.at_once == 10
    assert (replicas.fit, replicas.at_once) == (140, 20)
    longer = kv.room(CUTLASS, model, "solo", 2, Load(1, 250_000, 1000))
    assert longer.fit == 10


def test_a_pinned_cache_is_what_there_is() -> None:
    recipe = load_recipe("nemotron-3-nano-nvfp4-w4a16")
    assert kv.cache_bytes(recipe, 1) == 24 * 2**30
    assert kv.context(recipe, None) == 131072


def test_weights_that_do_not_fit_leave_nothing() -> None:
    flags = tuple(each for each in CUTLASS.flags if each.name != "gpu-memory-utilization")
    tight = CUTLASS.model_copy(
        update={"flags": (*flags, Flag(name="gpu-memory-utilization", words=("--gpu-memory-utilization", "0.5")))}
    )
    outlook = asked(row(1, 1, 1, SOLO), tight).outlook(SOLO, LOAD)
    assert outlook.why_not == "no room for one such request (KV cache)"


def test_who_is_not_let_in_waits_for_a_whole_answer() -> None:
    question = asked(row(1000, 100, 5.6, SOLO, users=10))
    seen, alone = question.outlook(SOLO, LOAD.at(25)), question.outlook(SOLO, LOAD.at(10))
    assert seen.waiting == 15 and not alone.waiting and alone.whole
    # Ten wait for one round and five for two.
    assert seen.waited == pytest.approx((10 * 1 + 5 * 2) / 25 * alone.whole)
    assert seen.of("ttft") == pytest.approx(5.6 + seen.waited)
    assert seen.pace == alone.pace and seen.whole == pytest.approx(alone.whole + seen.waited)


def test_who_waits_for_room_in_the_cache_is_not_faster_for_it() -> None:
    """A prompt that leaves room for fewer at once is no gain to anybody."""
    question = asked(row(1500, 50, 5.0, SOLO, users=8))
    short, long = (question.outlook(SOLO, Load(8, prompt, 128)) for prompt in (100_000, 250_000))
    assert long.pace and short.pace and long.pace > short.pace and long.first > short.first


def test_a_measured_failure_is_a_reason() -> None:
    open_ = CUTLASS.model_copy(update={"flags": tuple(each for each in CUTLASS.flags if each.name != "max-num-seqs")})
    solo = question(open_, 2, LOAD, NOWHERE).outlook(SOLO, LOAD.at(64))
    assert solo.why_not == "OOM ([A])" and solo.point is None


def test_ties_by_repeats_and_by_the_kind_of_figure() -> None:
    def verdict(*repeats: tuple[float, ...]) -> int:
        rows: Rows = {**row(1000, 1, 3.0, SOLO), **row(1000, 1, 3.0, CLUSTER),
                      (SOLO, "decode"): {8: repeats[0]}, (CLUSTER, "decode"): {8: repeats[1]}}  # fmt: skip
        question = asked(rows)
        found = by_figure([question.outlook(each, LOAD) for each in (SOLO, CLUSTER)], "decode")
        assert found
        return len(found.ahead)

    assert verdict((50.0, 50.2, 49.8), (55.0, 55.2, 54.8)) == 1
    assert verdict((50.0, 60.0, 40.0), (55.0, 65.0, 45.0)) == 2
    published: Rows = {**row(1000, 100.0, 3.0, SOLO), **row(1000, 100.9, 3.0, CLUSTER)}
    one = Question(CUTLASS, None, 2, Evidence([replace(source(published), kind="published")]))
    found = by_figure([one.outlook(each, LOAD) for each in (SOLO, CLUSTER)], "decode")
    assert found and found.tie and found.ahead[0] == CLUSTER


def test_what_is_computed_has_its_error_and_two_sources_theirs() -> None:
    rows: Rows = {**row(1000, 50, 3.0, SOLO), **row(1000, 53, 3.0, REPLICAS)}
    question = Question(CUTLASS, None, 2, Evidence([replace(source(rows), kind="published")]))
    solo, shuffled, even = (question.outlook(each, LOAD) for each in (SOLO, REPLICAS, Setup("replicas", "balanced")))
    assert error_between(solo, shuffled) < 2 * LEAST and COMPUTED <= error_between(solo, even) < COMPUTED + LEAST
    mine = replace(source(row(1000, 60, 3.0, SOLO)), kind="own run")
    other = Question(CUTLASS, None, 2, Evidence([mine, replace(source(rows), kind="published", name="[A]")]))
    assert error_between(other.outlook(SOLO, LOAD), other.outlook(REPLICAS, LOAD)) == APART


def test_the_target_decides_before_the_best_figure() -> None:
    rows = {**row(1000, 90, 3.0, CLUSTER), **row(1000, 60, 1.0, REPLICAS)}
    question = asked(rows)
    free = choose(question, outlooks(question, LOAD), LOAD)
    assert free and free.setup == CLUSTER and free.meets
    wanted = read("users=8 prompt=1024 answer=128 ttft=2s")
    bound = choose(question, outlooks(question, wanted), wanted)
    assert bound and bound.setup == REPLICAS and bound.meets


def test_where_nobody_meets_it_the_nearest_is_taken_and_the_most_are_said() -> None:
    load = read("users=30 prompt=1024 answer=256 ttft=2s")
    asked_ = question(CUTLASS, 2, load, NOWHERE)
    found = choose(asked_, outlooks(asked_, load), load)
    assert found and not found.meets and found.most and 5 <= found.most[1] <= 8


def test_where_it_turns() -> None:
    asked_ = question(load_recipe("gpt-oss-120b-mxfp4"), 2, LOAD, NOWHERE)
    turns = crossings(asked_, LOAD, "ttft")
    assert turns[0][1].ahead[0].topology == "cluster" and turns[-1][1].ahead[0].topology == "replicas"
    assert len(turns) > 1


def test_one_node_has_one_topology() -> None:
    assert question(CUTLASS, 1, LOAD, NOWHERE).setups() == [SOLO]


def test_a_prompt_longer_than_the_context_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        question(CUTLASS, 2, Load(1, 262_000, 200), NOWHERE)
    (finding,) = refused.value.findings
    assert finding.problem == "262,000 tokens in and 200 out are 262,200"
    assert "takes 262,144 together (max-model-len)" in finding.remedy


def test_what_no_spark_lets_start_is_no_option() -> None:
    # Untold, vLLM takes 0.92 of the whole.
    flags = tuple(each for each in CUTLASS.flags if each.name != "gpu-memory-utilization")
    untold = CUTLASS.model_copy(update={"flags": flags, "engine_version": "0.31.0"})
    outlook = asked(row(1, 1, 1, SOLO), untold).outlook(SOLO, LOAD)
    assert outlook.why_not == "a start wants 110.1 GiB free, an idle Spark has 110 at most"


def test_more_nodes_may_be_used_in_part_and_as_pairs() -> None:
    names = [str(each) for each in question(CUTLASS, 6, LOAD, NOWHERE).setups()]
    assert names == [
        "solo", "cluster, ray", "cluster, mp, 4 nodes", "replicas, balanced, 6 nodes", "replicas, balanced, 3 pairs",
    ]  # fmt: skip
