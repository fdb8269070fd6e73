"""Ranks in stages: what runs on each node, and what can't be and is refused in one line with its remedy."""

from __future__ import annotations

import re
from typing import Any

import pytest

from operations.paths import ENGINE
from operations.plan.config.refusal import Refusal
from operations.plan.plan import NodePlan
from operations.plan.ranks import check_model
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.judge import lint
from operations.plan.recipes.recipe import Recipe, flag
from tests.plan.samples import knobs, make_plan, nodes, plan

RECIPE = load_recipe(knobs().recipe)


def sizes(node: NodePlan, script: str = "engine/start.sh") -> dict[str, str]:
    """What a node's command says of its ranks."""
    files = [file for program in node.services.values() for file in program.files]
    text = next(file.content for file in files if file.path.endswith(script))
    names = ("tensor-parallel-size", "pipeline-parallel-size", "nnodes", "node-rank")
    return {name: found[1] for name in names if (found := re.search(rf"--{name} (\d+)", text))}


@pytest.mark.parametrize(
    ("count", "stages", "shares"), [(2, 2, 1), (3, 3, 1), (4, 2, 2), (4, 4, 1), (6, 2, 3), (8, 1, 8)]
)
def test_the_nodes_of_a_stage_share_its_layers(count: int, stages: int, shares: int) -> None:
    for index, node in enumerate(plan(count, pipeline_parallel=stages).nodes):
        said = {"tensor-parallel-size": str(shares), "nnodes": str(count), "node-rank": str(index)}
        assert sizes(node) == said | ({"pipeline-parallel-size": str(stages)} if stages > 1 else {})


def test_with_ray_the_head_alone_says_it() -> None:
    wanted = {"pipeline_parallel": 3, "executor": "ray", "recipe": "nemotron-3-super-nvfp4-marlin"}
    head, *workers = plan(3, **wanted).nodes
    assert sizes(head) == {"tensor-parallel-size": "1", "pipeline-parallel-size": "3"}
    assert [sizes(worker) for worker in workers] == [{}, {}]


def test_a_unit_is_described_as_a_rank_whatever_its_stage() -> None:
    unit = plan(4, pipeline_parallel=2).nodes[2].services[ENGINE]
    assert unit and any(f"{RECIPE.name}, rank 2 of 4" in file.content for file in unit.files)


def test_who_serves_alone_for_a_cluster_has_one_stage() -> None:
    for node in plan(4, pipeline_parallel=2, fallback="solo").nodes:
        assert sizes(node, "fallback/start.sh") == {"tensor-parallel-size": "1"}


@pytest.mark.parametrize(
    ("count", "changes", "problem", "remedy"),
    [
        (
            *(4, {"pipeline_parallel": 3}),
            "pipeline_parallel=3 does not divide the 4 nodes of the inventory",
            "set it to 1 or 2 or 4",
        ),
        (
            *(3, {"pipeline_parallel": 4}),
            "pipeline_parallel=4 wants 4 nodes or more, one for each stage; the inventory has 3",
            "add nodes to the inventory, or set it to 3 at most",
        ),
        *(
            (
                *(2, {"pipeline_parallel": 2, "topology": topology}),
                f"pipeline_parallel=2 with topology={topology}: only a cluster has stages",
                f"set pipeline_parallel to 1, or topology to cluster{groups}",
            )
            for topology, groups in (("solo", ""), ("replicas", ", or nodes_per_replica to 2 or more"))
        ),
    ],
)
def test_stages_that_can_t_be_are_refused(count: int, changes: dict[str, Any], problem: str, remedy: str) -> None:
    with pytest.raises(Refusal) as refused:
        plan(count, **changes)
    (finding,) = refused.value.findings
    assert finding.problem.startswith(problem) and finding.remedy == remedy


def test_more_ranks_than_nodes_are_refused() -> None:
    """A recipe for two stages of two nodes each."""
    wanted = knobs(pipeline_parallel=2)
    recipe = RECIPE.model_copy(update={"pipeline_parallel": 2, "min_nodes": 4})
    with pytest.raises(Refusal, match="wants 4 nodes or more; the inventory has 2"):
        make_plan(recipe, wanted, nodes(2, wanted))


def test_an_engine_without_pipelines_is_refused() -> None:
    recipe = load_recipe("nemotron-3-super-nvfp4-trtllm").model_copy(update={"topologies": ("cluster",)})
    wanted = knobs(pipeline_parallel=2)
    with pytest.raises(Refusal, match="pipeline_parallel=2: tensorrt-llm has no pipeline stages here"):
        make_plan(recipe, wanted, nodes(2, wanted))


def findings(count: int, layout: dict[str, Any], recipe: Recipe = RECIPE, **changes: Any) -> list[str]:
    return [f"{each.problem}; {each.remedy}" for each in check_model(recipe, knobs(**changes), count, layout)]


def test_heads_that_the_nodes_of_a_stage_can_t_share_are_refused() -> None:
    layout = {"heads": 32, "layers": 88, "architectures": ["NemotronHForCausalLM"]}
    (said,) = findings(3, layout)
    assert "has 32 attention heads, which 3 nodes can't share (tensor-parallel size 3)" in said
    assert said.endswith("set pipeline_parallel to 3, or take another number of nodes")
    (said,) = findings(6, layout, pipeline_parallel=2)
    assert said.endswith("set pipeline_parallel to 3 or 6, or take another number of nodes")
    assert findings(3, layout, pipeline_parallel=3) == findings(4, layout, pipeline_parallel=2) == []
    # What a stage for each node would want more layers for.
    (said,) = findings(3, {"heads": 4, "layers": 2})
    assert said.endswith("; take another number of nodes")


@pytest.mark.parametrize("layout", [{}, {"heads": 0, "layers": 0, "architectures": []}])
def test_what_the_model_does_not_say_is_not_refused(layout: dict[str, Any]) -> None:
    assert findings(3, layout) == findings(3, layout, pipeline_parallel=3) == []


def test_one_node_s_engine_shares_nothing() -> None:
    assert findings(3, {"heads": 32}, topology="replicas") == findings(3, {"heads": 32}, topology="solo") == []


def test_more_stages_than_layers_are_refused() -> None:
    (said,) = findings(3, {"heads": 4, "layers": 2}, pipeline_parallel=3)
    assert "has 2 layers, too few for pipeline_parallel=3; set pipeline_parallel to 2 at most" in said


@pytest.mark.parametrize("name", ["BertModel", "XLMRobertaForSequenceClassification", "GteNewModel"])
def test_an_encoder_can_t_be_put_into_stages(name: str) -> None:
    layout = {"heads": 12, "layers": 12, "architectures": [name]}
    (said,) = findings(2, layout, pipeline_parallel=2)
    assert f"is a {name}, which vllm can't put into stages; set pipeline_parallel to 1" in said
    assert findings(2, layout) == []


def test_a_decoder_that_gives_vectors_can() -> None:
    assert findings(2, {"heads": 16, "architectures": ["Qwen3ForCausalLM"]}, pipeline_parallel=2) == []


def remarks(stages: int, version: str | None = "0.32.0", **changes: Any) -> list[tuple[bool, str]]:
    recipe = RECIPE.model_copy(update={"engine_version": version, **changes})
    said = lint(recipe, knobs(pipeline_parallel=stages), nodes=4)
    # What tunes kernels in these releases is tests/plan/test_pairs.py's.
    about = [each for each in said if "stages" in each.problem and "FlashInfer" not in each.problem]
    return [(each.error, str(each)) for each in about]


@pytest.mark.parametrize(
    ("method", "version", "error", "said"),
    [
        ("mtp", "0.29.0", True, "does not start before vLLM 0.30, and this is 0.29.0"),
        ("eagle3", "0.17.1", True, "does not start before vLLM 0.30, and this is 0.17.1"),
        ("ngram", "0.29.0", False, "works for some models and methods alone"),
        ("mtp", "0.30.0", False, "works for some models and methods alone"),
        ("mtp", None, False, "works for some models and methods alone"),
    ],
)
def test_drafts_over_stages(method: str, version: str | None, error: bool, said: str) -> None:
    drafting = (flag("speculative-config", {"method": method}),)
    (found,) = remarks(2, version, flags=drafting)
    assert found[0] is error and said in found[1]
    assert remarks(1, version, flags=drafting) == []


def test_a_recipe_s_wish_is_told_where_the_knob_says_something_else() -> None:
    ((error, said),) = remarks(1, pipeline_parallel=2)
    assert not error and "it was written for 2 pipeline stages, and pipeline_parallel is 1" in said
    assert remarks(2, pipeline_parallel=2) == remarks(2) == []
    ((_, said),) = remarks(4, pipeline_parallel=2)
    assert "set pipeline_parallel to 2 to have it as it was written" in said


def test_layers_that_a_recipe_gives_out_itself_are_for_so_many_stages() -> None:
    env = {"VLLM_PP_LAYER_PARTITION": "30,30,28"}
    ((error, said),) = remarks(2, env=env)
    assert error and "VLLM_PP_LAYER_PARTITION says the layers of 3 stages, and there are 2" in said
    assert remarks(3, env=env) == []
