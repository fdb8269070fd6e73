"""What the canary is told: signs of life by the engine, patience by the recipe, the proxy on its own node."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from operations.paths import CANARY
from operations.plan.engines import ENGINES
from operations.plan.engines.base import CONTEXT_TOKENS, count
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.recipe import Recipe, flag
from tests.plan.samples import knobs, make_plan, nodes, plan


def told(node: str = "spark-1", **changes: Any) -> dict[str, Any]:
    """canary.json of a node."""
    program = plan(**changes).of(node).services[CANARY]
    assert program
    return dict(json.loads(next(file.content for file in program.files if file.path.endswith("canary.json"))))


def engine(node: str = "spark-1", **changes: Any) -> dict[str, Any]:
    """What it says of the one engine."""
    return dict(told(node, **changes)["engines"]["tandem-engine"])


def with_flags(recipe: Recipe, **flags: Any) -> Recipe:
    made = [flag(name.replace("_", "-"), value) for name, value in flags.items()]
    return recipe.model_copy(update={"flags": tuple(each for each in made if each)})


def patience(name: str = "lab-tiny-llama", **flags: Any) -> tuple[float, float]:
    """Seconds of silence for one that tells of itself, and for one that does not."""
    wanted = knobs(topology="solo")
    program = make_plan(with_flags(load_recipe(name), **flags), wanted, nodes(2, wanted)).head.services[CANARY]
    assert program
    content = next(file.content for file in program.files if file.path.endswith("canary.json"))
    engine = json.loads(content)["engines"]["tandem-engine"]
    return engine["silence_s"], engine["mute_s"]


def test_three_deadlines_are_the_patience_where_nothing_takes_longer() -> None:
    assert patience(max_model_len=1024) == (90, 90)
    assert patience(max_model_len=1024, max_num_batched_tokens=8192) == (90, 90)


def test_one_step_may_take_longer_than_three_deadlines() -> None:
    assert patience(max_model_len=1024, max_num_batched_tokens=65_536) == (65_536 / 500, 65_536 / 500)
    assert patience(max_model_len=200_000, no_enable_chunked_prefill=True) == (400, 400)
    assert patience(max_model_len=200_000, enable_chunked_prefill="False") == (400, 400)


def test_an_engine_that_tells_nothing_may_read_its_longest_prompt() -> None:
    assert patience(max_model_len="200k") == (90, 400)
    assert patience() == (90, CONTEXT_TOKENS / 500)
    assert patience("nemotron-3-super-nvfp4-trtllm", max_seq_len=1_048_576, max_num_tokens=8192)[1] == 1_048_576 / 500


@pytest.mark.parametrize(
    ("text", "tokens"), [("8192", 8192), ("128k", 128_000), ("1K", 1024), ("1.5m", 1_500_000), ("auto", 0), (True, 0)]
)
def test_numbers_of_tokens_are_read_as_vllm_does(text: object, tokens: int) -> None:
    assert count(text) == tokens


def test_vllm_s_signs_are_those_of_its_core_and_none_that_a_question_moves() -> None:
    metrics = """# TYPE vllm:kv_cache_usage_perc gauge
vllm:num_requests_running{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:prompt_tokens_total{engine="0",model_name="m"} 7.0
vllm:prompt_tokens_created{engine="0",model_name="m"} 1.7e+09
vllm:iteration_tokens_total_count{engine="0",model_name="m"} 3.0
vllm:iteration_tokens_total_bucket{engine="0",le="1.0",model_name="m"} 2.0
http_requests_total{handler="/metrics"} 99.0
process_cpu_seconds_total 12.5
"""
    found = re.findall(ENGINES["vllm"].SIGNS.pattern, metrics, re.MULTILINE)
    assert [line.partition("{")[0] for line in found] == [
        *("vllm:num_requests_running", "vllm:kv_cache_usage_perc"),
        *("vllm:prompt_tokens_total", "vllm:iteration_tokens_total_count"),
    ]


def test_tensorrt_llm_counts_its_iterations_unless_its_backend_always_does() -> None:
    recipe = load_recipe("nemotron-3-super-nvfp4-trtllm")
    engine = ENGINES["tensorrt-llm"]
    assert "enable_iter_perf_stats: true" in "".join(engine.files(recipe).values())
    bare = with_flags(recipe.model_copy(update={"config": None}), backend="tensorrt")
    assert engine.files(bare) == {}
    refused = recipe.model_copy(update={"config": {"enable_iter_perf_stats": False}})
    assert "enable_iter_perf_stats: false" in "".join(engine.files(refused).values())
    assert re.findall(engine.SIGNS.pattern, '[{"cpuMemUsage": 1, "iter": 17, "iterLatencyMS": 3.5}]') == ['"iter": 17']


def test_the_proxy_is_asked_on_its_socket_whatever_clients_call_it() -> None:
    for bind in ("loopback", "management", "all", "10.0.0.11"):
        assert told("spark-2", topology="replicas", proxy_bind=bind)["proxy"] == "unix:/run/tandem/sockets/proxy.sock"


def test_only_the_ranks_of_a_cluster_meet() -> None:
    assert engine(topology="replicas")["meeting"] is None
    meeting = {"mark": "/run/tandem/engine/meeting.json", "ranks": ["spark-1", "spark-2"]}
    assert engine(topology="cluster")["meeting"] == meeting
    assert (engine(topology="cluster")["acts"], engine("spark-2", topology="cluster")["acts"]) == (True, False)
