"""What engines keep from start to start: ranks of a cluster have alike what they must, whichever of them is new."""

from __future__ import annotations

import re
from typing import Any

import pytest

from operations.plan.engines import ENGINES, kept
from operations.plan.engines.vllm_caches import AUTOTUNE
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.judge import lint
from operations.plan.recipes.recipe import Flag, Recipe, flag
from tests.plan.samples import engine_of, knobs, make_plan, nodes

#: The one whose ranks hung (vLLM #57423) is the default's.
RECIPE = load_recipe("nemotron-3-super-nvfp4-auto")
CLUSTER = knobs(topology="cluster", executor="mp")


def in_version(version: str | None, **changes: Any) -> Recipe:
    return RECIPE.model_copy(update={"engine_version": version, **changes})


def texts(recipe: Recipe, topology: str = "cluster") -> list[dict[str, str]]:
    """The engine's files of each node, by name."""
    of = knobs(topology=topology, executor="mp")
    made = make_plan(recipe, of, nodes(2, of))
    services = [engine_of(each) for each in made.serving]
    return [{file.path.rpartition("/")[2]: file.content for file in each.files} for each in services]


def kept_for_one_start(files: dict[str, str]) -> bool:
    """Whether the autotuner's file lies where no volume is: it goes with the container."""
    place = dict(line.split("=", 1) for line in files["engine.env"].splitlines()).get(AUTOTUNE, "/root/.cache/vllm")
    mounted = re.findall(r"--volume\s+'?[^:\s]+:([^:\s']+)", files["run.sh"])
    assert "/root/.cache" in mounted, "compiled kernels are kept"
    return not any(place == folder or place.startswith(f"{folder}/") for folder in mounted)


@pytest.mark.parametrize("version", ["0.27.0", "0.27.1", "0.28.0", "0.30.0", "0.31.0", None])
def test_a_new_node_beside_a_warm_one_finds_what_the_others_find_which_is_nothing(version: str | None) -> None:
    ranks = texts(in_version(version))
    assert len(ranks) == 2 and all(kept_for_one_start(files) for files in ranks)


@pytest.mark.parametrize("version", ["0.17.1", "0.23.0", "0.26.0", "0.32.0", "0.33.0"])
def test_where_ranks_agree_by_themselves_everything_is_kept(version: str) -> None:
    assert not any(kept_for_one_start(files) for files in texts(in_version(version)))


@pytest.mark.parametrize("topology", ["solo", "replicas"])
def test_an_engine_of_one_rank_keeps_all_of_it(topology: str) -> None:
    assert not any(kept_for_one_start(files) for files in texts(in_version("0.31.0"), topology))


def said(recipe: Recipe) -> str:
    return "\n".join(str(each) for each in lint(recipe, CLUSTER))


def test_a_release_that_hangs_is_named_with_what_the_plan_does() -> None:
    assert "hangs in vLLM 0.31.0" in said(RECIPE) and "for one start alone" in said(RECIPE)
    assert "hangs" not in said(in_version("0.32.0", env={}))
    assert "hangs" not in said(in_version(None)), "that of a build may be any"
    off = [flag("no-enable-flashinfer-autotune", True), flag("kernel-config", {"enable_flashinfer_autotune": False})]
    off += [flag("kernel-config.enable_flashinfer_autotune", "False"), flag("optimization_level", 0)]
    for each in [*off, Flag(name="optimization-level", words=("-O0",))]:
        assert each and "hangs" not in said(in_version("0.31.0", flags=(each,))), each


def test_a_recipe_that_keeps_the_file_itself_has_the_last_word_and_is_told() -> None:
    own = in_version("0.31.0", env={AUTOTUNE: "/root/.cache/mine"})
    assert not any(kept_for_one_start(files) for files in texts(own))
    assert f"remove {AUTOTUNE}" in said(own)


def test_a_plan_of_the_start_that_one_rank_alone_has_is_named() -> None:
    assert "a rank that has a plan leaves out" in said(in_version("0.31.0", env={"VLLM_ENABLE_STARTUP_PLAN": "1"}))
    assert "leaves out" not in said(in_version("0.31.0", env={"VLLM_ENABLE_STARTUP_PLAN": "0"}))


def test_each_cache_has_its_source_and_what_must_be_alike_a_way_to_be() -> None:
    for name, runs in ENGINES.items():
        for each in runs.CACHES:
            assert each.source and each.key, (name, each.path)
            assert each.ranks == "own" or each.variable or each.switch, (name, each.path)
            both = [other for other in runs.CACHES if other.path == each.path and other.ranks != each.ranks]
            assert not any(set(_releases(name, each)) & set(_releases(name, other)) for other in both), each.path


def _releases(engine: str, cache: kept.Cache) -> list[str]:
    versions = ["0.5.23", "0.17.1", "0.26.0", "0.27.0", "0.31.0", "0.32.0", "0.33.0"]
    return [version for version in versions if cache.is_of(version)]


def test_a_kv_connector_is_not_given_memory_that_moves() -> None:
    """vLLM 0.22 and newer end at the two together."""
    connector = flag("kv-transfer-config", {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"})
    assert connector
    with_it = RECIPE.model_copy(update={"flags": (*RECIPE.flags, connector)})
    assert "expandable_segments" in texts(RECIPE, "solo")[0]["engine.env"]
    assert "expandable_segments" not in texts(with_it, "solo")[0]["engine.env"]
