"""What is known of a setup: which source, what follows from it for other loads, and which rows can't be."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bench.advise import models
from bench.advise.curves import lawful, no_worse
from bench.advise.evidence import Estimated, Evidence, Measured
from bench.advise.load import Load
from bench.advise.measured import setup_of, tables
from bench.advise.physics import Point
from bench.advise.setups import Figure, Kind, Setup
from bench.records import Setup as Measuring
from operations.plan.recipes.formats import load_recipe

SOLO, CLUSTER, REPLICAS = Setup("solo"), Setup("cluster", "mp"), Setup("replicas", "simple-shuffle")
Rows = Mapping[tuple[Setup, Figure], Mapping[int, tuple[float, ...]]]
LOAD = Load(8, 1024, 128)


def source(rows: Rows, kind: Kind = "own run", name: str = "mine") -> Measured:
    return Measured(kind, name, 1024, 128, rows, {})


def estimated() -> Estimated:
    recipe = load_recipe("nemotron-3-super-nvfp4-cutlass")
    model = models.of(recipe)
    assert model
    return Estimated(model, 1.0)


def whole(setup: Setup = SOLO, prefill: float = 1500, decode: float = 50.0, ttft: float = 4.5, users: int = 8) -> Rows:
    return {
        (setup, "prefill"): {users: (prefill,)},
        (setup, "decode"): {users: (decode,)},
        (setup, "ttft"): {users: (ttft,)},
    }


def figures(known: Evidence, setup: Setup, load: Load = LOAD) -> tuple[float, float, float]:
    """Prefill, decode, first token."""
    found = known.known(setup, load)
    assert found
    point = found.curve.at(load.users)
    return (
        load.users * load.prompt / (point.first + point.gap),
        point.decode(load.users, load.answer),
        point.first,
    )


@pytest.mark.parametrize("base", [True, False])
def test_a_row_is_taken_as_it_is(base: bool) -> None:
    known = Evidence([source(whole())], estimated() if base else None)
    assert figures(known, SOLO) == pytest.approx((1500, 50, 4.5))


def test_between_rows_it_lies_between_them_and_beyond_them_it_goes_on_as_the_estimate_does() -> None:
    known = Evidence([source({(SOLO, "decode"): {4: (40.0,), 16: (70.0,)}})], estimated())
    few, between, many, more = (figures(known, SOLO, LOAD.at(users))[1] for users in (4, 8, 16, 32))
    assert few == pytest.approx(40) and many == pytest.approx(70) and 40 < between < 70 < more < 140


def test_another_prompt_is_carried_over_by_the_estimate() -> None:
    rows: Rows = {(SOLO, "ttft"): {1: (1.0,)}, (SOLO, "decode"): {1: (16.0,)}}
    longer = Load(1, 4096, 128)
    known, plain = Evidence([source(rows)], estimated()), Evidence([source(rows)])
    assert 2.5 < figures(known, SOLO, longer)[2] < 4.2 and 14 < figures(known, SOLO, longer)[1] <= 16
    # Where nothing is known of the model a prompt takes as long as it has tokens.
    assert figures(plain, SOLO, longer)[2] == pytest.approx(4.0)


def test_decode_alone_of_an_unknown_model_is_no_answer() -> None:
    assert Evidence([source({(SOLO, "decode"): {1: (16.0,)}})]).known(SOLO, LOAD) is None


def test_own_runs_come_first_and_no_source_is_multiplied_with_another() -> None:
    mine, theirs = source(whole(decode=60.0)), source(whole(CLUSTER, decode=80.0), "published", "[A]")
    known = Evidence([mine, theirs], estimated())
    found = [known.known(each, LOAD) for each in (SOLO, CLUSTER)]
    assert [each and each.kind for each in found] == ["own run", "published"]
    assert figures(known, CLUSTER)[1] == pytest.approx(80.0)


def test_replicas_that_nobody_has_measured_are_made_of_one_engines_own_curve() -> None:
    known = Evidence([source({**whole(users=4, decode=44.0), **whole(users=8)})], estimated())
    even, one = Setup("replicas", "balanced"), figures(known, SOLO, LOAD.at(4))
    assert figures(known, even)[1] == pytest.approx(2 * one[1]) and figures(known, even)[2] == pytest.approx(one[2])
    found = known.known(even, LOAD)
    assert found and found.kind == "computed" and found.words == "from one engine's own figures, mine"
    # A random split has more on one of both.
    assert figures(known, REPLICAS)[1] < figures(known, even)[1]


def test_a_cluster_that_nobody_has_measured_has_the_kernels_of_what_was() -> None:
    slow, fast = (Evidence([source(whole(decode=decode))], estimated()) for decode in (30.0, 60.0))
    assert figures(slow, CLUSTER)[1] < figures(fast, CLUSTER)[1]
    found = slow.known(CLUSTER, LOAD)
    assert found and found.words == "from solo of mine"
    bare = Evidence([], estimated()).known(CLUSTER, LOAD)
    assert bare and bare.kind == "estimate"


def test_other_numbers_of_nodes_are_other_setups() -> None:
    known = Evidence([source({**whole(), **whole(REPLICAS, decode=76.0)}, "published")], estimated())
    two, four = (known.known(Setup("replicas", "simple-shuffle", on), LOAD) for on in (2, 4))
    assert two and four and (two.kind, four.kind) == ("published", "computed")
    assert figures(known, Setup("replicas", "simple-shuffle", 4))[1] > 76.0
    assert Setup("replicas", "balanced", 2) == Setup("replicas", "balanced")
    assert str(Setup("cluster", "mp", 4)) == "cluster, mp, 4 nodes"
    pairs = Setup("replicas", "balanced", 4, 2)
    assert (pairs.engines, str(pairs)) == (2, "replicas, balanced, 2 pairs")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({(SOLO, "decode"): {1: (90.0,)}}, "solo, 1 users: 90 tok/s of decode, where the memory's bandwidth allows"),
        ({(SOLO, "prefill"): {1: (90_000.0,)}}, "90,000 tok/s of prefill, where the GPU's arithmetic allows"),
        (
            {(SOLO, "ttft"): {1: (9.0,)}, (SOLO, "whole"): {1: (5.0,)}},
            "a first token after 9.0 s of an answer of 5.0 s",
        ),
    ],
)
def test_a_row_that_no_machine_can_have_is_not_taken(rows: Rows, said: str) -> None:
    known = Evidence([source(rows)], estimated())
    (doubt,) = known.doubts
    assert said in doubt and doubt.endswith("not taken")
    assert all(key[1] == "whole" for key in known.sources[0].rows)


def test_a_curve_is_made_lawful() -> None:
    """More users are never sooner, and never later than one after the other."""
    curve = lawful({1: Point(1, 0, 0.1), 2: Point(0.5, 0.5, 0.05), 4: Point(9, 3, 9)})
    assert curve.at(2) == Point(1, 0, 0.1) and curve.at(4) == Point(3, 1, 0.4)
    assert curve.at(3) == Point(2, 0.5, 0.25) and curve.at(8) == Point(6, 2, 0.8)
    assert no_worse(curve, lawful({1: Point(2, 0, 0.05)})).at(1) == Point(1, 0, 0.05)


def test_of_stages_own_runs_alone_say_something() -> None:
    stages = setup_of(
        Measuring(name="cluster/mp/pp2", topology="cluster", executor="mp", routing="", stages=2, nodes=2, plan="p")
    )
    assert str(stages) == "cluster, mp, pipeline_parallel = 2" and stages != CLUSTER
    assert Evidence([], estimated()).known(stages, LOAD) is None
    known = Evidence([source({(stages, "ttft"): {1: (2.0,)}, (stages, "decode"): {1: (9.0,)}})], estimated())
    assert figures(known, stages, Load(1, 4096, 128))[2] == pytest.approx(8.0)


def test_tables_of_a_recipe_then_its_model_then_its_file() -> None:
    def names(recipe: str) -> list[str]:
        return [each.name for each in tables(load_recipe(recipe))]

    assert names("nemotron-3-super-nvfp4-cutlass") == ["[A]", "[E]"]
    assert names("nemotron-3-super-nvfp4-auto") == ["[A]", "[E]", "[N]"]
    # Tables without drafts say nothing of a recipe that drafts.
    assert names("nemotron-3-super-nvfp4-auto-mtp") == ["[N]"]
    assert names("gpt-oss-120b-mxfp4") == ["[S][D]"]
    assert names("lab-tiny-llama") == []


def test_users_who_ask_the_same_say_nothing_of_others() -> None:
    (only,) = tables(load_recipe("nemotron-3-nano-nvfp4-w4a4"))
    assert only.users(SOLO) == [1]
