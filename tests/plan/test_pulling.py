"""What `tandem models pull` declares for the time of a pull: which files, on which nodes, and nothing else needed."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

import pytest

from operations.plan.cluster.nodes import Node
from operations.plan.config.refusal import Refusal
from operations.plan.plan import make_plan
from operations.plan.pulling import pulled
from operations.plan.recipes.formats import load_recipe
from operations.verbs.recipe_table import shipped
from tests.plan.samples import knob_data

NAMES = ("spark-1", "spark-2")
OTHER = "qwen3.6-35b-a3b-nvfp4"
HUB = {"repo": "org/new", "revision": "c" * 40, "kind": "gguf", "files": ["new-Q4_K_M.gguf"], "gib": 12.5}
#: One of each engine that ships with a recipe, beside vLLM's.
_OF_OTHER_ENGINES = [each.name for each in shipped() if each.engine != "vllm"]
MODELS = {
    "chat": {"recipe": "nemotron-3-super-nvfp4-auto", "topology": "cluster"},
    "coder": {"recipe": OTHER, "topology": "solo", "nodes": ["spark-2"]},
}


def test_a_repository_stands_in_the_model_s_place_without_the_recipe_s_words() -> None:
    of, name = pulled(HUB, knob_data(topology="cluster", model_from="/mnt/models"), {})
    [model] = of.models
    assert name == "" and [each.at for each in model.recipe.models] == [f"models--org--new@{'c' * 40}"]
    assert model.recipe.model.files == ("new-Q4_K_M.gguf",) and model.recipe.model.kind == "gguf"
    assert model.recipe.flags == () and model.knobs.model_from == "hub"
    # Disk is all that it takes.
    needs = model.recipe.needs
    assert (needs.model_disk_gib, needs.image_disk_gib, needs.gpu, needs.memory_gib) == (12.5, 0, False, {})
    assert model.lies_on(NAMES) == NAMES


def test_another_recipe_lies_where_it_could_serve_and_knobs_of_the_declared_one_are_not_its() -> None:
    data = knob_data(topology="cluster", model_from="/mnt/models", model_revision="d" * 40)
    of, name = pulled({"name": OTHER}, data, {})
    assert name == "" and of.first.recipe.name == OTHER and of.first.knobs.model_from == "hub"
    assert of.first.recipe.model.revision == load_recipe(OTHER).model.revision
    assert of.knobs.topology in load_recipe(OTHER).topologies
    given: dict[str, Any] = {"topology": "solo"}
    of, _ = pulled({"name": OTHER}, {**data, **given}, given)
    assert of.first.lies_on(NAMES) == ("spark-1",)


def test_one_of_several_models_is_pulled_by_its_name_onto_its_nodes() -> None:
    of, name = pulled({"name": "coder"}, knob_data(models=MODELS), {})
    coder = next(each for each in of.models if each.name == name)
    assert name == "coder" and coder.lies_on(NAMES) == ("spark-2",) and not coder.recipe.needs.gpu
    assert of.models[0].recipe.needs.gpu, "what is not asked for is as it was"


def test_a_name_of_nothing_is_told_with_the_nearest() -> None:
    with pytest.raises(Refusal, match="no such recipe") as refused:
        pulled({"name": "qwen3.6-35b-a3b-nvfp5"}, knob_data(), {})
    assert f"did you mean `{OTHER}`?" in str(refused.value)


@pytest.mark.parametrize("recipe", ["qwen3.6-35b-a3b-nvfp4", *_OF_OTHER_ENGINES])
def test_any_engine_s_plan_has_a_repository_in_its_place(recipe: str) -> None:
    runs_in = load_recipe(recipe).topologies[0]
    of, _ = pulled(HUB, knob_data(recipe=recipe, topology=runs_in), {})
    names = NAMES if runs_in != "solo" else NAMES[:1]
    rails, subnets = ("a0", "b0"), (IPv4Network("192.168.177.0/24"), IPv4Network("192.168.178.0/24"))
    nodes = [
        Node(name, index, name, "/home/spark", "aarch64", rails, subnets=subnets) for index, name in enumerate(names)
    ]
    assert [each.repo for each in make_plan(of, nodes).models[0].recipe.models] == ["org/new"]
