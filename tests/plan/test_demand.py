"""What starts demand of a node's memory: each engine's own count, the recipe's word, and a DGX Spark's memory."""

from __future__ import annotations

from typing import Any

import pytest

from operations.plan.config.spark import FLOOR_GIB, IDLE_GIB, MOST_SHARE, SPARK_GIB
from operations.plan.engines.base import Demand
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.lint.room import known_gib
from operations.plan.recipes.recipe import Flag, Recipe
from operations.plan.services.demand import check, demand, free_gib
from operations.verbs import recipe_table
from tests.plan.samples import engine_of, plan, survey
from tests.plan.test_checks import findings
from tests.plan.test_lint import remarks
from tests.plan.test_models import planned

TOTAL_GIB = max(SPARK_GIB)
STARTS = [
    pytest.param(recipe, topology, id=f"{recipe.name}-{topology}")
    for recipe in recipe_table.shipped()
    for topology in recipe.topologies
]
AUTO = load_recipe("nemotron-3-super-nvfp4-auto")


def told(recipe: Recipe, **flags: str) -> Recipe:
    """The recipe with these flags in the place of its own."""
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    others = [each for each in recipe.flags if each.name not in named]
    own = [Flag(name=name, words=(f"--{name}", value)) for name, value in named.items() if value]
    return recipe.model_copy(update={"flags": (*others, *own)})


def says(recipe: Recipe, **gib: float) -> Recipe:
    """The recipe with these words of memory."""
    return recipe.model_copy(update={"needs": recipe.needs.model_copy(update={"memory_gib": gib})})


def parts(recipe: Recipe, topology: Any) -> int:
    return max(recipe.min_nodes, 2) if topology == "cluster" else 1


@pytest.mark.parametrize(("recipe", "topology"), STARTS)
def test_no_shipped_recipe_asks_for_what_an_idle_spark_does_not_give(recipe: Recipe, topology: Any) -> None:
    wanted = demand(recipe, topology, parts(recipe, topology))
    for total in SPARK_GIB:
        assert 0 < free_gib(recipe, wanted, total, FLOOR_GIB) <= min(IDLE_GIB)


@pytest.mark.parametrize(("recipe", "topology"), STARTS)
def test_a_shipped_recipe_s_share_is_no_more_than_the_most_that_it_says(recipe: Recipe, topology: Any) -> None:
    wanted, most = demand(recipe, topology, parts(recipe, topology)), max(recipe.needs.memory_gib.values())
    assert wanted.share * TOTAL_GIB <= most
    pinned = recipe.flag("kv-cache-memory-bytes")
    if pinned:
        # And holds what is pinned, on the smaller Spark too.
        known = known_gib(recipe, parts(recipe, topology), float(str(pinned).removesuffix("G")))
        assert wanted.share * min(SPARK_GIB) >= known


@pytest.mark.parametrize(
    ("flags", "version", "share"),
    [
        ({"gpu-memory-utilization": "0.85"}, "0.31.0", 0.85),
        # A pinned cache lowers nothing: the share is looked for all the same.
        ({"gpu-memory-utilization": "0.85", "kv-cache-memory-bytes": "8G"}, "0.31.0", 0.85),
        ({"gpu-memory-utilization": ""}, "0.31.0", 0.92),
        ({"gpu-memory-utilization": ""}, "0.17.1", 0.9),
        ({"gpu-memory-utilization": ""}, None, 0.92),
    ],
)
def test_vllm_wants_its_share_of_the_whole(flags: dict[str, str], version: str | None, share: float) -> None:
    recipe = told(AUTO, **flags).model_copy(update={"engine_version": version})
    assert demand(says(recipe, solo=58), "solo") == Demand(58, share)
    assert demand(says(recipe, solo=58), "solo").of(TOTAL_GIB) == pytest.approx(share * TOTAL_GIB)
    assert demand(says(recipe, solo=115), "solo").of(TOTAL_GIB) == 115


def test_sglang_s_weights_have_to_fit_into_its_share_of_what_is_free() -> None:
    recipe = says(told(AUTO, gpu_memory_utilization="", mem_fraction_static="0.8"), solo=0)
    recipe = recipe.model_copy(update={"engine": "sglang"})
    assert demand(recipe, "solo").of(TOTAL_GIB) == pytest.approx(69.5 / 0.8)
    assert demand(recipe, "cluster", 2).of(TOTAL_GIB) == pytest.approx(69.5 / 2 / 0.8)


def test_tensorrt_llm_wants_its_weights_and_what_the_recipe_says() -> None:
    recipe = load_recipe("nemotron-3-super-nvfp4-trtllm")
    assert demand(says(recipe), "solo").of(TOTAL_GIB) == 69.5
    assert demand(recipe, "solo").of(TOTAL_GIB) == 100


def test_without_a_gpu_the_recipe_s_word_is_all() -> None:
    assert demand(load_recipe("lab-tiny-llama"), "cluster", 2) == Demand(3)


def spark(available_gib: float) -> Any:
    return survey(memory={"total_mib": round(TOTAL_GIB * 1024), "available_mib": round(available_gib * 1024)})


def test_the_preflight_asks_for_what_the_engine_will_look_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(spark(101.3)) == ""
    before = says(told(AUTO, gpu_memory_utilization="0.85"), solo=100, cluster=100)
    monkeypatch.setattr("tests.plan.test_checks.load_recipe", lambda _name: before)
    assert findings(spark(107.5)) == ""
    # It would start, and the guard would end it: the cache fills the share.
    assert findings(spark(104)) == (
        "has 104.0 GiB of memory available, vLLM wants 107.4 (gpu-memory-utilization 0.85 of 121.7, and 4 left above "
        "memory_floor_gib) -> end what holds it: ps aux --sort -rss | head; or set gpu-memory-utilization to 0.82 in "
        "the recipe"
    )
    assert findings(spark(104), memory_floor_gib=0) == ""
    # What is pinned fills nothing.
    pinned = told(before, gpu_memory_utilization="0.85", kv_cache_memory_bytes="8G")
    monkeypatch.setattr("tests.plan.test_checks.load_recipe", lambda _name: pinned)
    assert findings(spark(104)) == ""
    assert "vLLM wants 103.4 (gpu-memory-utilization 0.85 of 121.7) -> end" in findings(spark(103))
    monkeypatch.setattr("tests.plan.test_checks.load_recipe", lambda _name: says(before, solo=110, cluster=110))
    assert "available, the recipe needs 110 -> log out of the desktop" in findings(spark(108))


def test_what_the_remedy_says_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = says(told(AUTO, gpu_memory_utilization=f"{MOST_SHARE}"), solo=0, cluster=0)
    monkeypatch.setattr("tests.plan.test_checks.load_recipe", lambda _name: recipe)
    assert MOST_SHARE == 0.79
    assert findings(spark(min(IDLE_GIB))) == ""
    assert not any("freezes" in each for each in remarks(error=False, flags={"gpu-memory-utilization": "0.79"}))
    assert any(
        "set it to 0.79 or less" in each for each in remarks(error=False, flags={"gpu-memory-utilization": "0.8"})
    )


def test_a_need_below_its_share_is_told() -> None:
    said = "memory_gib is 58, and gpu-memory-utilization 0.85 wants 101 GiB of a GB10 free"
    flags = {"gpu-memory-utilization": "0.85"}
    needs = AUTO.needs.model_copy(update={"memory_gib": {"solo": 58.0, "cluster": 40.0}})
    assert any(each.startswith(said) for each in remarks(error=False, flags=flags, needs=needs))
    assert not any(each.startswith("memory_gib is") for each in remarks(error=False, flags=flags))
    enough = AUTO.needs.model_copy(update={"memory_gib": {"solo": 101.0, "cluster": 40.0}})
    assert not any(each.startswith("memory_gib is") for each in remarks(error=False, flags=flags, needs=enough))


def test_the_page_of_recipes_says_what_has_to_be_free() -> None:
    rows = {recipe.name: recipe_table.row(recipe) for recipe in recipe_table.shipped()}
    assert rows[AUTO.name][4] == "100"
    assert rows["gemma-4-31b-it-nvfp4"][4] == "67"


def shipped(name: str, **changes: Any) -> str:
    """A file of the head's engine."""
    return next(file.content for file in engine_of(plan(**changes).head).files if file.path.endswith(f"/{name}"))


def test_memory_is_made_free_before_a_start_and_beside_the_container_behind_the_meeting() -> None:
    ready = shipped("ready.sh", topology="cluster")
    # Once, when nothing is waited for any more.
    assert ready.count('python3 "${0%/*}/memory.py"\n') == 1
    assert ready.index('python3 "${0%/*}/memory.py"\n') > ready.rindex("\nwait_while ")
    assert 'memory.py" 102400 790\n' in ready
    beside = "(until python3 /etc/tandem/engine/memory.py beside http://"
    mark = "/metrics /run/tandem/engine/meeting.json; do sleep 1; done &)"
    assert f"{beside}192.168.177.11:8001{mark}" in shipped("run.sh", topology="cluster")
    # Alone there is no meeting; without a GPU the kernel's caches are in nobody's way.
    assert f"{beside}127.0.0.1:8001/metrics; do" in shipped("run.sh", topology="solo")
    assert "memory.py" not in shipped("run.sh", topology="cluster", recipe="lab-tiny-llama")


def test_models_of_one_node_start_where_all_of_them_find_what_they_want() -> None:
    words = {"topology": "solo", "nodes": ["spark-1"]}
    both = {
        "coder": {"recipe": "qwen3.6-35b-a3b-nvfp4", **words, "memory_gib": 58},
        "small": {"recipe": "lab-tiny-llama", **words, "served_name": "small", "memory_gib": 40},
    }
    models = planned(both, count=2).on("spark-1")
    assert list(check(spark(101.3), models)) == []
    ((problem, remedy, _code),) = check(spark(90), models)
    assert problem == "has 90.0 GiB of memory available, its models need 98.0 together"
    assert remedy.startswith("give them less (memory_gib), or end what holds it")
    # What runs gives its memory back first.
    running = spark(10)
    running["state"]["services"]["units"]["tandem-engine-coder"] = {"ActiveState": "active"}
    assert list(check(running, models)) == []
