"""Whose NCCL the ranks of a cluster load, when the recipe wants the system's."""

from __future__ import annotations

from typing import Any

import pytest

from operations.plan import nccl
from operations.plan.formats import load_recipe
from operations.plan.plan import Plan
from operations.plan.recipe import Recipe
from tests.plan.samples import engine_of, knobs, make_plan, nodes


def planned(recipe: Recipe, **changes: Any) -> Plan:
    wanted = knobs(**changes)
    return make_plan(recipe, wanted, nodes(2, wanted))


def files(of: Plan, index: int) -> dict[str, str]:
    engine = engine_of(of.nodes[index])
    return {file.path.rpartition("/")[2]: file.content for file in engine.files} if engine else {}


@pytest.mark.parametrize("executor", ["mp", "ray"])
def test_on_every_rank_the_system_s_library_is_put_in_place_before_anything_loads_one(executor: str) -> None:
    of = planned(load_recipe("nemotron-3-super-nvfp4-marlin").model_copy(update={"nccl": "system"}), executor=executor)
    for index in (0, 1):
        found = files(of, index)
        lines = found["start.sh"].splitlines()
        commands = lines[lines.index("export PYTHONUNBUFFERED=1") + 1 :]
        assert commands[0] == "python3 /tandem/nccl.py" and len(commands) > 1
        assert "nccl.py" in found and "NCCL_DEBUG=VERSION\n" in found["engine.env"]


@pytest.mark.parametrize(("whose", "topology"), [("wheel", "cluster"), ("system", "solo"), ("system", "replicas")])
def test_with_the_wheel_s_or_with_one_gpu_nothing_is_put_in_place(whose: str, topology: str) -> None:
    of = planned(load_recipe("qwen3.6-35b-a3b-nvfp4").model_copy(update={"nccl": whose}), topology=topology)
    assert "nccl" not in files(of, 0)["start.sh"] and "nccl.py" not in files(of, 0)
    assert nccl.expected(of.models[0].recipe, of.knobs) == ()


def test_the_recipe_has_the_last_word_on_what_nccl_says() -> None:
    recipe = load_recipe("qwen3.6-35b-a3b-nvfp4").model_copy(update={"env": {"NCCL_DEBUG": "INFO"}})
    assert "NCCL_DEBUG=INFO\n" in files(planned(recipe), 1)["engine.env"]
