"""SGLang, as far as it can be known without one: what it is started with, asked, and judged by."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench.advise.kv import context, room
from bench.advise.load import Load
from bench.advise.measured import drafts
from bench.advise.models import kv_bytes
from operations.node.look import bench_facts
from operations.plan.config.refusal import Refusal
from operations.plan.engines import ENGINES, counters
from operations.plan.recipes.formats import load_file
from operations.plan.recipes.judge import judge_of, lint
from operations.plan.recipes.lint.subject import releases
from operations.plan.recipes.recipe import Recipe
from operations.plan.services.litellm import Behind, proxy_config
from operations.plan.services.panels import dashboard, panels
from tests.plan.samples import knobs, nodes, plan

RUNS = ENGINES["sglang"]
OWN = """name: mine
description: of our own
source: tests
engine: sglang
engine_version: 0.5.23
image: lmsysorg/sglang:v0.5.23
model: {repo: org/model, revision: "1111111111111111111111111111111111111111"}
served_name: model
topologies: [solo, cluster, replicas]
load_minutes: 10
flags: {mem-fraction-static: 0.8}
"""
#: As 0.5.23 says them after a request; the time that its scheduler counts goes on for ever.
METRICS = (
    '# HELP sglang:realtime_tokens_total Tokens\nsglang:realtime_tokens_total{mode="decode",model_name="m"} 17.0\n'
    'sglang:scheduler_process_cpu_seconds_total{model_name="m"} 3.5\nsglang:num_running_reqs{model_name="m"} 1.0\n'
    'sglang:inter_token_latency_seconds_count{model_name="m"} 6.0\nsglang:token_usage{model_name="m"} 0.25\n'
    'sglang:scheduler_idle_seconds_total{model_name="m"} 9.0\nsglang:prompt_tokens_total{model_name="m"} 12.0\n'
    'sglang:generation_tokens_total{model_name="m"} 7.0\nsglang:num_requests_total{is_streaming="true"} 2.0\n'
    'sglang:num_requests_total{is_streaming="false"} 1.0\nsglang:cached_tokens_total{cache_source="device"} 4.0\n'
)


def own(folder: Path, **changes: str) -> Recipe:
    """A recipe of our own format; `changes`: a line's key -> the whole line."""
    lines = OWN.splitlines()
    text = "\n".join(changes.pop(line.partition(":")[0], line) for line in lines)
    (folder / "mine.yaml").write_text("\n".join([text, *changes.values()]) + "\n")
    return load_file(folder / "mine.yaml")


def said(recipe: Recipe, **changes: Any) -> list[str]:
    return [str(each) for each in lint(recipe, knobs(**changes))]


def test_a_recipe_of_our_own_is_served(tmp_path: Path) -> None:
    recipe = own(tmp_path)
    of = knobs(topology="cluster")
    serving = nodes(3, of)
    first, *others = (RUNS.commands(recipe, of, node, serving)[-1] for node in serving)
    assert first[:2] == ["sglang", "serve"]
    assert first[-6:] == ["--nnodes", "3", "--node-rank", "0", "--dist-init-addr", "192.168.177.11:26001"]
    assert [argv[argv.index("--host") + 1] for argv in (first, *others)] == ["192.168.177.11", "127.0.0.1", "127.0.0.1"]
    assert [argv[argv.index("--node-rank") + 1] for argv in others] == ["1", "2"]
    assert all(argv[argv.index("--tp-size") + 1] == "3" and "--enable-metrics" in argv for argv in (first, *others))


def test_the_release_is_read_in_the_image_s_tag() -> None:
    peer = load_file(Path(__file__).parent / "peers/sparkrun-sglang.yaml")
    assert (peer.engine, peer.engine_version, peer.format) == ("sglang", "0.5.23", "sparkrun")


def test_one_that_serves_alone_for_a_cluster_answers_on_the_fabric() -> None:
    peer = str(Path(__file__).parent / "peers/sparkrun-sglang.yaml")
    worker = plan(2, topology="cluster", fallback="solo", recipe=peer).nodes[1]
    files = {file.path: file.content for service in worker.services.values() for file in service.files}
    rank, alone = files["/etc/tandem/engine/start.sh"], files["/etc/tandem/fallback/start.sh"]
    assert "--host 127.0.0.1" in rank and "--nnodes 2" in rank
    assert "--host 192.168.177.12" in alone and "--nnodes" not in alone and "--tp-size 1" in alone


def test_ray_is_refused_in_one_line_with_the_remedy(tmp_path: Path) -> None:
    recipe = own(tmp_path)
    by_ray = [each for each in lint(recipe, knobs(topology="cluster", executor="ray")) if each.error]
    assert [str(each) for each in by_ray] == [
        "the ranks of sglang are not joined by executor=ray here; set executor to mp"
    ]
    assert not [each for each in lint(recipe, knobs(topology="replicas", executor="ray")) if each.error]


@pytest.mark.parametrize("name", ["tp", "tp-size", "model-path", "dist-init-addr", "nccl-init-addr", "enable-metrics"])
def test_what_follows_from_the_plan_is_refused_by_every_name_of_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refusal, match=rf"flags: `{name}` is not a recipe's") as refused:
        own(tmp_path, flags=f"flags: {{{name}: 1}}")
    assert len(refused.value.findings) == 1


def test_its_address_is_the_plan_s(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="`SGLANG_HOST_IP` is set by the plan"):
        own(tmp_path, env="env: {SGLANG_HOST_IP: 10.0.0.1}")


def test_its_signs_move_with_its_work_and_not_with_time() -> None:
    found = re.findall(RUNS.SIGNS.pattern, METRICS, re.MULTILINE)
    assert len(found) == 6 and not any("seconds_total" in each for each in found)
    idle = METRICS.replace("3.5", "4.5").replace("9.0", "19.0")
    assert re.findall(RUNS.SIGNS.pattern, idle, re.MULTILINE) == found
    assert re.findall(RUNS.SIGNS.pattern, METRICS.replace("17.0", "18.0"), re.MULTILINE) != found


def test_a_bench_reads_its_counters() -> None:
    assert bench_facts.parse(METRICS, counters()) == {
        "requests": 3,
        "prompt_tokens": 12,
        "answer_tokens": 7,
        "prefix_asked": 12,
        "prefix_found": 4,
    }


def test_the_page_draws_its_metrics_and_grafana_those_of_all() -> None:
    drawn = {panel["id"]: panel["expr"] for panel in panels("sglang")}
    assert drawn.keys() == {panel["id"] for panel in panels("vllm")}
    assert "sglang:num_running_reqs" in drawn["requests_running"]
    exprs = [panel["targets"][0]["expr"] for panel in dashboard()["panels"]]
    assert any("vllm:num_requests_running) or sum by (model_name) (sglang:num_running_reqs)" in each for each in exprs)


def test_a_model_that_reasons_is_not_continued(tmp_path: Path) -> None:
    urls = ("http://192.168.177.11:8001", "http://192.168.177.12:8001")
    plain = proxy_config(knobs(topology="replicas"), [Behind(own(tmp_path), urls)])["model_list"][0]
    assert plain["litellm_params"]["model"] == "hosted_vllm/model"
    assert plain["model_info"] == {"continues": {"continue_final_message": True}}
    recipe = own(tmp_path, flags="flags: {reasoning-parser: qwen3}")
    assert "model_info" not in proxy_config(knobs(topology="replicas"), [Behind(recipe, urls)])["model_list"][0]


def test_clients_ask_for_an_adapter_behind_the_model_s_name(tmp_path: Path) -> None:
    recipe = own(tmp_path, flags="flags: {lora-paths: [poet=org/poet, org/other]}")
    assert RUNS.adapters(recipe) == ("model:poet", "model:org/other")
    config = proxy_config(knobs(), [Behind(recipe, ("http://127.0.0.1:8001",))])
    names = [each["model_name"] for each in config["model_list"]]
    assert names == ["model", "model:poet", "model:org/other"]


@pytest.mark.parametrize(
    ("flags", "step", "context"),
    [
        ("{context-length: 32768, chunked-prefill-size: 4096}", 4096, 32768),
        ("{context-length: 32Ki, chunked-prefill-size: -1}", 32768, 32768),
        ("{}", 0, 262_144),
    ],
)
def test_how_long_it_may_be_silent_follows_from_its_chunks(tmp_path: Path, flags: str, step: int, context: int) -> None:
    recipe = own(tmp_path, flags=f"flags: {flags}")
    assert (RUNS.step_tokens(recipe), RUNS.context_tokens(recipe)) == (step, context)


def test_an_advice_reads_its_flags(tmp_path: Path) -> None:
    flags = "{max-running-requests: 4, context-length: 8192, kv-cache-dtype: fp8_e4m3, mem-fraction-static: 0.8}"
    recipe = own(tmp_path, flags=f"flags: {flags}")
    told = room(recipe, None, "replicas", 2, Load(2, 1024, 256))
    assert (told.let_in, told.words) == (8, "max-running-requests") and context(recipe, None) == 8192
    assert kv_bytes(recipe) == 1.0 and not drafts(recipe)
    assert drafts(own(tmp_path, flags="flags: {speculative-algorithm: EAGLE3}"))


def test_weights_that_leave_no_room_are_told(tmp_path: Path) -> None:
    model = OWN.splitlines()[6].replace("org/model,", "org/model, weights_gib: 110,")
    assert "mem-fraction-static 0.8 leaves no KV cache beside 110 GiB" in str(
        said(own(tmp_path, model=model), topology="solo")
    )
    assert "leaves no KV cache" not in str(said(own(tmp_path, model=model), topology="cluster"))
    assert "leaves no KV cache" not in str(said(own(tmp_path, model=model, flags="flags: {}"), topology="solo"))


def test_it_is_judged_by_the_list_of_one_release(tmp_path: Path) -> None:
    assert judge_of(own(tmp_path), knobs()) == "the flags of SGLang 0.5.23"
    known: Any = releases("sglang")["0.5.23"]["flags"]
    assert set(RUNS.SEVERAL) == {name for name, facts in known.items() if "many" in facts}
    assert len(known) > 500 and {"tp-size", "mem-fraction-static", "enable-metrics", "lora-paths"} <= known.keys()
    assert json.dumps(known["enable-metrics"]) == '{"takes": "bare"}'
