"""What each model of a node is told to take of its memory, and which words about memory can't be held."""

from __future__ import annotations

from typing import Any

import pytest

from operations.plan.config.refusal import Finding, Refusal
from operations.plan.plan import Plan
from operations.plan.recipes.formats import load_recipe
from tests.lab.three_models import ALL
from tests.plan.samples import engine_of
from tests.plan.samples import plan as plan_of_one
from tests.plan.test_models import TINY, planned, text

GEMMA, QWEN = "gemma-4-31b-it-nvfp4", "qwen3.6-35b-a3b-nvfp4"
TENSORRT, SUPER = "nemotron-3-super-nvfp4-trtllm", "nemotron-3-super-nvfp4-auto"
#: Two clusters on the same two nodes.
BESIDE: dict[str, dict[str, Any]] = {
    "chat": {"recipe": GEMMA, "topology": "cluster", "nodes": ["spark-1", "spark-2"]},
    "coder": {"recipe": QWEN, "topology": "cluster", "nodes": ["spark-1", "spark-2"]},
}
SMALL = {"recipe": TINY, "topology": "solo", "nodes": ["spark-1"], "served_name": "small"}
SHARE = "--gpu-memory-utilization"


def share(of: Plan, node: str, model: str) -> list[str]:
    """What follows the flag for a share of memory, wherever it stands in a model's start."""
    words = text(of.of(node), f"tandem-engine-{model}", "start.sh").split()
    return [words[at + 1] for at, word in enumerate(words) if word == SHARE]


def refused(models: dict[str, Any], count: int = 2) -> Finding:
    with pytest.raises(Refusal) as caught:
        planned(models, count=count)
    (finding,) = caught.value.findings
    return finding


def test_models_that_share_nodes_are_told_the_shares_that_were_counted() -> None:
    of = planned(BESIDE, count=2)
    for node in ("spark-1", "spark-2"):
        # 51 and 47 of 122 GiB, in the place of each recipe's own.
        assert share(of, node, "chat") == ["0.41"]
        assert share(of, node, "coder") == ["0.38"]
    assert f'memory.py" {51 * 1024} 410' in text(of.head, "tandem-engine-chat", "ready.sh")


def test_all_engines_of_a_model_have_one_share_where_one_of_them_shares_its_node() -> None:
    coder = {"recipe": QWEN, "topology": "replicas", "nodes": ["spark-1", "spark-2"]}
    of = planned({"coder": coder, "small": SMALL}, count=2)
    assert share(of, "spark-1", "coder") == share(of, "spark-2", "coder") == ["0.47"]


def test_a_share_that_was_counted_by_the_recipe_s_own_flag_stays() -> None:
    recipe = load_recipe(QWEN)
    silent = recipe.model_copy(update={"needs": recipe.needs.model_copy(update={"memory_gib": {}})})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("operations.plan.wanted.load_recipe", lambda name: silent if name == QWEN else load_recipe(name))
        of = planned({"coder": {"recipe": QWEN, "topology": "solo", "nodes": ["spark-1"]}, "small": SMALL}, count=2)
    assert share(of, "spark-1", "coder") == ["0.47"]


def test_a_model_with_its_nodes_to_itself_has_the_recipe_s_command() -> None:
    models = {
        "chat": {"recipe": QWEN, "topology": "solo", "nodes": ["spark-1"]},
        "other": {"recipe": GEMMA, "topology": "solo", "nodes": ["spark-2"]},
    }
    of = planned(models, count=2)
    assert share(of, "spark-1", "chat") == ["0.47"] and share(of, "spark-2", "other") == ["0.55"]
    alone = planned({"chat": models["chat"]}, count=2)
    flat = engine_of(plan_of_one(2, recipe=QWEN, topology="solo").nodes[0])
    start = next(file.content for file in flat.files if file.path.endswith("/start.sh"))
    assert text(alone.head, "tandem-engine-chat", "start.sh") == start


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"memory_gib": 100}, "memory_gib=100: TensorRT-LLM can't be told its share of a node's memory"),
        ({}, "shares spark-1 with small: TensorRT-LLM can't be told its share of a node's memory"),
    ],
)
def test_an_engine_that_can_t_be_told_a_share_does_not_share_a_node(words: dict[str, Any], problem: str) -> None:
    models = {"chat": {"recipe": TENSORRT, "topology": "solo", "nodes": ["spark-1"], **words}, "small": SMALL}
    finding = refused(models)
    assert (finding.where, finding.problem) == ("models.chat", problem)
    assert finding.remedy.endswith("give the model nodes of its own, or a recipe of another engine")
    assert finding.remedy.startswith("take it out, and") == bool(words)


def test_an_engine_that_can_t_be_told_a_share_has_none_on_nodes_of_its_own_either() -> None:
    alone = {"chat": {"recipe": TENSORRT, "topology": "solo", "nodes": ["spark-1"]}}
    assert planned(alone, count=2)
    assert refused({"chat": {**alone["chat"], "memory_gib": 110}}).problem.startswith("memory_gib=110: TensorRT-LLM")


@pytest.mark.parametrize(
    ("words", "problem", "least"),
    [
        (
            {"topology": "solo", "nodes": ["spark-1"], "memory_gib": 20},
            "memory_gib=20, and it takes 50.0 GiB: 22.0 of weights, 24.0 of KV cache, 4.0 beside that",
            50,
        ),
        (
            {"topology": "cluster", "nodes": ["spark-1", "spark-2"], "memory_gib": 38.5},
            "memory_gib=38.5, and it takes 39.0 GiB: 11.0 of weights, 24.0 of KV cache, 4.0 beside that",
            39,
        ),
        (
            {"topology": "replicas", "nodes_per_replica": 2, "memory_gib": 38.5},
            "memory_gib=38.5, and it takes 39.0 GiB: 11.0 of weights, 24.0 of KV cache, 4.0 beside that",
            39,
        ),
        (
            {"topology": "solo", "nodes": ["spark-1"], "memory_gib": 60, "recipe": SUPER},
            "memory_gib=60, and it takes 73.5 GiB: 69.5 of weights, 4.0 beside that",
            74,
        ),
    ],
    ids=["solo", "cluster", "groups", "no-pinned-cache"],
)
def test_less_than_what_is_known_of_a_model_is_refused(words: dict[str, Any], problem: str, least: int) -> None:
    finding = refused({"coder": {"recipe": QWEN, **words}}, count=4)
    remedy = f'"coder": {{"memory_gib": {least}}} at least, or other nodes'
    assert finding == Finding("models.coder", problem, remedy)
    assert planned({"coder": {"recipe": QWEN, **words, "memory_gib": least}}, count=4)


def test_what_is_counted_by_a_recipe_beside_another_model_is_enough_too() -> None:
    recipe = load_recipe(QWEN)
    small = recipe.model_copy(update={"needs": recipe.needs.model_copy(update={"memory_gib": {"solo": 30.0}})})
    coder = {"recipe": QWEN, "topology": "solo", "nodes": ["spark-1"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("operations.plan.wanted.load_recipe", lambda name: small if name == QWEN else load_recipe(name))
        assert planned({"coder": coder}, count=2)
        finding = refused({"coder": coder, "small": SMALL})
    assert finding.problem.startswith(
        "30.0 GiB of each node are counted for it, and it takes 50.0 GiB: 22.0 of weights"
    )


def test_a_tiny_model_without_a_gpu_may_have_little() -> None:
    assert planned(ALL)


def test_an_engine_is_never_told_more_than_was_counted_for_it() -> None:
    # 40 of 122 GiB are 0.32787: told 0.33, vLLM would want some MiB more than are there for it.
    of = planned({"coder": {"recipe": QWEN, "topology": "cluster", "nodes": ["spark-1", "spark-2"], "memory_gib": 40}})
    assert share(of, "spark-1", "coder") == ["0.32"]


def test_a_word_that_demands_more_than_it_gives_is_refused() -> None:
    # SGLang's share is one of what is free at its start: 30 GiB of 122 are a quarter of that, and 22 are weights.
    sglang = load_recipe(QWEN).model_copy(update={"engine": "sglang", "flags": ()})
    coder = {"recipe": QWEN, "topology": "solo", "nodes": ["spark-1"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("operations.plan.wanted.load_recipe", lambda name: sglang if name == QWEN else load_recipe(name))
        finding = refused({"coder": {**coder, "memory_gib": 30}})
        assert planned({"coder": {**coder, "memory_gib": 60}}, count=2)
    assert finding.problem == (
        "memory_gib=30, and told so SGLang wants 91.7 GiB free: its share is one of what it finds"
    )
    assert finding.remedy.startswith("give it more, or nodes of its own")


def test_a_kernel_that_keeps_some_mib_more_for_itself_changes_no_share() -> None:
    recipe = {"recipe": QWEN, "topology": "solo", "nodes": ["spark-1"], "memory_gib": 60}
    told = []
    for mib in (124_928, 124_868):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.plan.test_models.MIB", mib)
            told.append(text(planned({"coder": recipe}, count=2).head, "tandem-engine-coder", "start.sh"))
    assert told[0] == told[1]
