"""Figures over sources: who is asked first, what lies between rows, how a worse source is held against a better one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bench.advise import models
from bench.advise.evidence import Estimated, Evidence, Figure, Kind, Measured, Setup
from bench.advise.load import Load
from bench.advise.measured import setup_of, tables
from bench.records import Setup as Measuring
from operations.plan.formats import load_recipe

SOLO, CLUSTER, REPLICAS = Setup("solo"), Setup("cluster", "mp"), Setup("replicas", "simple-shuffle")
Rows = Mapping[tuple[Setup, Figure], Mapping[int, tuple[float, ...]]]


def source(rows: Rows, kind: Kind = "own run", name: str = "mine", estimated: Estimated | None = None) -> Measured:
    return Measured(kind, name, 1024, 128, rows, {}, estimated)


def estimated() -> Estimated:
    recipe = load_recipe("nemotron-3-super-nvfp4-cutlass")
    model = models.of(recipe)
    assert model
    return Estimated(model, 2, 1.0)


def test_a_row_is_taken_as_it_is() -> None:
    found = source({(SOLO, "decode"): {8: (50.0, 52.0)}}).at(SOLO, "decode", Load(8, 1024, 128))
    assert found and found.value == 51.0 and found.repeats == (50.0, 52.0) and found.words == "mine, 8 users"


def test_between_rows_it_lies_on_the_straight_line_of_logarithms() -> None:
    rows: Rows = {(SOLO, "decode"): {4: (40.0,), 16: (160.0,)}}
    found = source(rows).at(SOLO, "decode", Load(8, 1024, 128))
    assert found and found.value == pytest.approx(80.0) and found.words == "mine, between 4 and 16 users"
    assert source(rows).at(SOLO, "decode", Load(32, 1024, 128)) is None
    assert source(rows).at(SOLO, "decode", Load(2, 1024, 128)) is None
    assert source(rows).at(CLUSTER, "decode", Load(8, 1024, 128)) is None


def test_another_prompt_is_carried_over_by_the_estimate() -> None:
    rows: Rows = {(SOLO, "ttft"): {1: (1.0,)}, (SOLO, "decode"): {1: (16.0,)}}
    with_estimate, without = source(rows, estimated=estimated()), source(rows)
    longer = Load(1, 4096, 128)
    found = with_estimate.at(SOLO, "ttft", longer)
    assert found and 2.5 < found.value < 4.0 and found.words == "mine, 1 user, from 1,024 in and 128 out"
    plain = without.at(SOLO, "ttft", longer)
    assert plain and plain.value == 4.0
    decode = with_estimate.at(SOLO, "decode", longer)
    assert decode and 0.9 < decode.value / 16 <= 1


def test_own_runs_come_first_and_a_table_is_held_against_them() -> None:
    mine = source({(SOLO, "decode"): {1: (20.0,), 8: (60.0,)}})
    theirs = source(
        {(SOLO, "decode"): {1: (16.0,), 8: (50.0,)}, (CLUSTER, "decode"): {8: (80.0,), 64: (150.0,)}},
        "published",
        "[A]",
    )
    known = Evidence([mine, theirs])
    load = Load(8, 1024, 128)
    solo, cluster = known.at(SOLO, "decode", load), known.at(CLUSTER, "decode", load)
    assert solo and (solo.value, solo.kind) == (60.0, "own run")
    assert cluster and cluster.value == pytest.approx(80.0 * 60 / 50) and cluster.kind == "published"
    assert cluster.words == "[A], 8 users, times 1.20: mine over it, solo, 8 users"
    # Beyond the owner's rows the nearest one that both have is taken.
    far = Evidence([mine, source({(CLUSTER, "decode"): {64: (150.0,)}}, "published", "[A]")]).at(
        CLUSTER, "decode", load.at(64)
    )
    assert far and far.value == 150.0


def test_an_estimate_is_held_against_what_was_measured() -> None:
    known = Evidence([source({(SOLO, "decode"): {1: (32.0,)}}), estimated()])
    bare = estimated().at(CLUSTER, "decode", Load(1, 1024, 128))
    alone = estimated().at(SOLO, "decode", Load(1, 1024, 128))
    found = known.at(CLUSTER, "decode", Load(1, 1024, 128))
    assert bare and alone and found
    assert found.kind == "estimate" and found.value == pytest.approx(bare.value * 32.0 / alone.value)


def test_of_stages_own_runs_alone_say_something() -> None:
    stages = setup_of(
        Measuring(name="cluster/mp/pp2", topology="cluster", executor="mp", routing="", stages=2, nodes=2, plan="p")
    )
    assert str(stages) == "cluster, mp, pipeline_parallel = 2" and stages != CLUSTER
    load = Load(1, 1024, 128)
    assert Evidence([estimated()]).at(stages, "decode", load) is None
    known = Evidence([source({(stages, "ttft"): {1: (2.0,)}}, estimated=estimated()), estimated()])
    assert known.at(stages, "decode", load) is None
    found = known.at(stages, "ttft", Load(1, 4096, 128))
    assert found and found.value == 8.0 and found.words == "mine, 1 user, from 1,024 in and 128 out"


def test_replicas_tell_more_of_solo_than_the_cluster_does() -> None:
    rows: Rows = {(REPLICAS, "prefill"): {8: (1000.0,)}, (CLUSTER, "prefill"): {8: (1.0,)}}
    found = Evidence([source(rows), estimated()]).at(SOLO, "prefill", Load(8, 1024, 128))
    assert found and "replicas, simple-shuffle" in found.words


def test_tables_of_a_recipe_then_its_file_then_its_model() -> None:
    def names(recipe: str) -> list[str]:
        return [each.name for each in tables(load_recipe(recipe), None)]

    assert names("nemotron-3-super-nvfp4-cutlass") == ["[A]", "[E]"]
    assert names("nemotron-3-super-nvfp4-auto") == ["[N]", "[A]", "[E]"]
    # Tables without drafts say nothing of a recipe that drafts.
    assert names("nemotron-3-super-nvfp4-auto-mtp") == ["[N]"]
    assert names("gpt-oss-120b-mxfp4") == ["[S][D]"]
    assert names("lab-tiny-llama") == []
