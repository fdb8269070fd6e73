"""llama.cpp in the plan: what it is started with, what it takes, what is refused. The real one: tests/node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.advise.kv import room
from bench.advise.load import Load
from bench.advise.models import kv_bytes
from operations.node.image import gpu_trial
from operations.plan.config.refusal import Refusal
from operations.plan.engines import ENGINES, missing_files
from operations.plan.recipes.formats import load_file
from operations.plan.recipes.judge import judge_of, lint
from operations.plan.recipes.lint.subject import releases
from operations.plan.recipes.recipe import Recipe
from operations.plan.services import demand
from operations.plan.services.litellm import Behind, proxy_config
from tests.plan.samples import knobs, nodes
from tests.plan.test_models import planned

RUNS = ENGINES["llama-cpp"]
OWN = """name: mine
description: of our own
source: tests
engine: llama-cpp
engine_version: 0.7.0
image: registry.example/llama-cpp:latest
model: {repo: org/model-gguf, revision: "1111111111111111111111111111111111111111", files: [m-Q8_0.gguf]}
served_name: model
topologies: [solo, replicas]
load_minutes: 10
flags: {ctx-size: 32768, parallel: 4}
"""


def own(folder: Path, **changes: str) -> Recipe:
    """A recipe of our own format; `changes`: a line's key -> the whole line."""
    lines = OWN.splitlines()
    text = "\n".join(changes.pop(line.partition(":")[0], line) for line in lines)
    (folder / "mine.yaml").write_text("\n".join([text, *changes.values()]) + "\n")
    return load_file(folder / "mine.yaml")


def with_model(words: str) -> str:
    return f'model: {{repo: org/model-gguf, revision: "{"1" * 40}", {words}}}'


def said(recipe: Recipe, error: bool | None = None, **changes: Any) -> list[str]:
    of = knobs(**({"topology": "replicas"} | changes))
    return [str(each) for each in lint(recipe, of) if error in (None, each.error)]


def test_it_is_started_with_the_file_that_is_named(tmp_path: Path) -> None:
    recipe, of = own(tmp_path), knobs(topology="replicas")
    node = nodes(2, of)[1]
    (argv,) = RUNS.commands(recipe, of, node, nodes(2, of))
    snapshot = f"/hub/models--org--model-gguf/snapshots/{'1' * 40}"
    assert argv[:6] == ["sh", "/tandem/llama.sh", snapshot, "m-Q8_0.gguf", "--", "llama-server"]
    plans = ["--alias", "model", "--host", "192.168.177.12", "--port", "8001", "--metrics"]
    assert argv[6:] == [*plans, "--ctx-size", "32768", "--parallel", "4"]
    assert recipe.model.kind == "gguf" and "llama.sh" in RUNS.files(recipe)


@pytest.mark.parametrize("flag", ["spec-draft-model: '{model}/d.gguf'", "lora: '{model}/d.gguf'"])
def test_what_a_flag_names_of_the_model_s_own_repository_is_not_the_model(tmp_path: Path, flag: str) -> None:
    """The shortest name would be taken."""
    recipe = own(tmp_path, flags=f"flags: {{ctx-size: 4096, {flag}}}")
    of = knobs(topology="replicas")
    (argv,) = RUNS.commands(recipe, of, nodes(2, of)[1], nodes(2, of))
    assert "d.gguf" in recipe.model.files and argv[3:5] == ["m-Q8_0.gguf", "--"]


def test_replicas_and_solo_are_planned_and_a_cluster_is_refused_with_the_reason(tmp_path: Path) -> None:
    recipe = own(tmp_path)
    assert not said(recipe, error=True) and not said(recipe, error=True, topology="solo")
    (refused,) = said(recipe, error=True, topology="cluster")
    assert refused.startswith("llama-cpp does not run in topology=cluster here: its RPC has no key")
    assert refused.endswith("set topology to solo or replicas")


def test_several_models_share_nodes_as_their_memory_is_what_their_flags_say(tmp_path: Path) -> None:
    own(tmp_path, model=with_model("files: [m.gguf], weights_gib: 20, kv_kib: 128"))
    path = str(tmp_path / "mine.yaml")
    words = {"recipe": path, "topology": "solo", "nodes": ["spark-1"]}
    chat, code = {**words, "memory_gib": 40, "served_name": "chat"}, {**words, "memory_gib": 30, "served_name": "code"}
    found = planned({"chat": chat, "code": code}, count=2)
    assert [demand.of(each).gib for each in found.models] == [40, 30]
    with pytest.raises(Refusal, match=r"memory_gib=20, and it takes 28.0 GiB: 20.0 of weights, 4.0 of KV cache"):
        planned({"chat": chat, "code": {**code, "memory_gib": 20}}, count=2)


@pytest.mark.parametrize(
    ("flags", "context", "requests"),
    [
        ("{ctx-size: 32768, parallel: 4}", 8192, 4),
        ("{ctx-size: 32768, parallel: 4, kv-unified: true}", 32768, 4),
        ("{ctx-size: 32768, parallel: 1}", 32768, 1),
        # llama.cpp chooses four slots then, which share the context.
        ("{ctx-size: 32768}", 32768, 4),
        ("{parallel: 2}", None, 2),
    ],
)
def test_the_context_is_divided_by_the_slots(tmp_path: Path, flags: str, context: int | None, requests: int) -> None:
    recipe = own(tmp_path, flags=f"flags: {flags}")
    told = RUNS.memory(recipe)
    assert (told.context, told.requests) == (context, requests)
    divided = "ctx-size 32768 is divided by parallel 4: a question and its answer have 8192 tokens"
    assert any(divided in each for each in said(recipe)) == (context == 8192)
    assert any("ctx-size is not set" in each for each in said(recipe)) == (context is None)
    info = proxy_config(knobs(), [Behind(recipe, ("http://127.0.0.1:8001",))])["model_list"][0].get("model_info", {})
    assert info.get("context") == context


def test_its_memory_is_weights_and_the_whole_cache(tmp_path: Path) -> None:
    flags = "flags: {ctx-size: 65536, parallel: 2, cache-type-k: q8_0, cache-type-v: q8_0}"
    recipe = own(tmp_path, model=with_model("files: [m.gguf], weights_gib: 60, kv_kib: 128"), flags=flags)
    # 128 KiB a token at 16 bits; of q8_0 32 values take 34 bytes.
    assert RUNS.memory(recipe).cache_bytes == 65536 * 128 * 1024 * 34 / 64
    assert RUNS.demand(recipe, 1).gib == pytest.approx(60 + 8 * 34 / 64) and RUNS.demand(recipe, 1).share == 0
    assert kv_bytes(recipe) == 34 / 32 and room(recipe, None, "replicas", 2, Load(2, 1024, 256)).let_in == 4
    large = own(tmp_path, model=with_model("files: [m.gguf], weights_gib: 118, kv_kib: 128"), flags=flags)
    assert "118 GiB of weights and 4 GiB of KV cache on each node do not fit" in str(said(large, error=True))


def test_a_model_without_a_file_is_told_how_to_name_one(tmp_path: Path) -> None:
    recipe = own(tmp_path, model=with_model("weights_gib: 3"))
    (error,) = said(recipe, error=True)
    assert error.startswith("no GGUF file of org/model-gguf is named; add `files: [NAME-Q4_K_M.gguf]` to `model`")


def test_what_flags_name_of_the_repository_is_fetched_too(tmp_path: Path) -> None:
    flags = "flags: {ctx-size: 4096, mmproj: mmproj-F16.gguf, spec-draft-model: 'org/draft/d-Q8_0.gguf'}"
    draft = f'further_models: [{{repo: org/draft, revision: "{"2" * 40}", files: [d-Q8_0.gguf]}}]'
    recipe = own(tmp_path, flags=flags, further_models=draft)
    assert recipe.model.files == ("m-Q8_0.gguf", "mmproj-F16.gguf")
    assert [(each.repo, each.kind, each.files) for each in recipe.further_models] == [
        ("org/draft", "gguf", ("d-Q8_0.gguf",))
    ]
    argv = RUNS.commands(recipe, knobs(), nodes(1, knobs())[0], nodes(1, knobs()))[-1]
    assert argv[argv.index("--spec-draft-model") + 1] == f"/hub/models--org--draft/snapshots/{'2' * 40}/d-Q8_0.gguf"
    assert argv[argv.index("--mmproj") + 1].endswith("/mmproj-F16.gguf") and "*mmproj*.gguf" not in argv


def test_another_quant_of_the_same_revision_is_fetched(tmp_path: Path) -> None:
    recipe = own(tmp_path, flags="flags: {mmproj: mmproj-F16.gguf}")
    assert missing_files(recipe, recipe.model, ["m-Q4_K_M.gguf"]) == ["mmproj-F16.gguf", "m-Q8_0.gguf"]
    assert not missing_files(recipe, recipe.model, ["m-Q8_0.gguf", "mmproj-F16.gguf", "m-Q4_K_M.gguf"])
    files = RUNS.weights("org/m:Q8_0", "", {}).files
    other = recipe.model_copy(update={"model": recipe.model.model_copy(update={"files": files}), "flags": ()})
    for here in (["m-Q4_K_M.gguf", "mmproj-q8_0.gguf"], ["m-BQ8_0.gguf"], []):
        assert len(missing_files(other, other.model, here)) == 1
    for name in ("m-Q8_0.gguf", "m.q8_0.gguf", "Q8_0/m-Q8_0-00001-of-00002.gguf", "Q8_0.gguf"):
        assert not missing_files(other, other.model, [name])


@pytest.mark.parametrize(
    ("flags", "continues"),
    [
        ("{reasoning: 'off'}", True),
        ("{reasoning-budget: 0}", True),
        ("{chat-template-kwargs: {enable_thinking: false}}", True),
        # What a model's template does with its thoughts nobody knows: an answer would go on as one.
        ("{}", False),
        ("{reasoning: 'off', no-prefill-assistant: true}", False),
    ],
)
def test_a_broken_stream_goes_on_where_the_model_does_not_reason(tmp_path: Path, flags: str, continues: bool) -> None:
    assert bool(RUNS.continues(own(tmp_path, flags=f"flags: {flags}"))) == continues


@pytest.mark.parametrize(
    "name", ["model", "hf-repo", "hf-file", "alias", "host", "metrics", "api-key", "rpc", "tools", "models-dir"]
)
def test_what_follows_from_the_plan_is_refused_by_every_name_of_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refusal, match=rf"flags: `{name}` is not a recipe's"):
        own(tmp_path, flags=f"flags: {{{name}: 1}}")


def test_it_is_judged_by_the_list_of_one_release(tmp_path: Path) -> None:
    assert judge_of(own(tmp_path), knobs()) == "the flags of llama.cpp 0.7.0"
    known: Any = releases("llama-cpp")["0.7.0"]["flags"]
    assert len(known) > 300 and {"ctx-size", "metrics", "mmproj", "no-mmproj", "kv-unified"} <= known.keys()
    assert {*RUNS.OWNED} - {"served-model-name"} <= known.keys() and set(RUNS.SAME) <= known.keys()
    wrong = own(tmp_path, flags="flags: {ctx-sise: 1, jinja: 1, ubatch-size: true, no-such-flag: 1}")
    errors = said(wrong, error=True)
    assert [each.partition(";")[0] for each in errors] == [
        "llama.cpp 0.7.0 has no flag `--ctx-sise`",
        "jinja is a switch, and `1` stands behind it",
        "nothing stands behind `--ubatch-size`, and llama.cpp 0.7.0 wants a value",
    ]
    assert any("has no flag `--no-such-flag`" in each for each in said(wrong, error=False))


def test_vectors_want_their_flag_and_an_order_of_documents_is_refused(tmp_path: Path) -> None:
    model = OWN.splitlines()[6].replace("org/model-gguf", "org/bge-m3-gguf")
    assert "add the flag embeddings" in str(said(own(tmp_path, model=model), error=True))
    good = own(tmp_path, model=model, flags="flags: {ctx-size: 8192, embeddings: true}")
    assert good.answers == "embedding" and not said(good, error=True)
    assert "it ranks documents" in str(said(own(tmp_path, flags="flags: {reranking: true}"), error=True))


def test_an_image_without_python_is_asked_by_a_shell() -> None:
    seen = gpu_trial.by_words("smi 0 GPU 0: NVIDIA GB10 (UUID: x)\nnvml there\ncuda there\ntold\n")
    assert gpu_trial.judged(seen) is None
    blind = gpu_trial.judged(gpu_trial.by_words("told\n"))
    assert blind and "no nvidia-smi" in blind.problem and gpu_trial.by_words("smi 0 GPU") == {}
    off = gpu_trial.judged(gpu_trial.by_words("smi 9 NVIDIA-SMI has failed\nnvml there\ncuda there\ntold\n"))
    assert off and "ends with 9: NVIDIA-SMI has failed" in off.problem
    bare = gpu_trial.judged(gpu_trial.by_words("smi 0 GPU 0: NVIDIA GB10\nnvml there\ntold\n"))
    assert bare and "libcuda.so.1 is not in it" in bare.problem
