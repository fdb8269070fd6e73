"""Words that are fine alone and not together, in the spellings that people use."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Any

import pytest

from operations.plan.engines.vllm_lint import refused, refused_drafts, refused_states, seen
from operations.plan.engines.vllm_lint.said import Said
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.formats.serve import served
from operations.plan.recipes.judge import lint
from operations.plan.recipes.lint.subject import Subject, shipped
from operations.plan.recipes.recipe import Recipe
from tests.plan.samples import knobs

PLAIN = load_recipe("nemotron-3-super-nvfp4-marlin").model_copy(update={"env": {}, "remarks": (), "proof": None})
EVERY = (*refused.PAIRS, *refused_drafts.PAIRS, *refused_states.PAIRS, *seen.PAIRS)
NEMOTRON, QWEN, FLASH = (
    "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B",
    "Qwen/Qwen3.6-35B-A3B",
    "nvidia/Qwen3.8-Flash-Next",
)
GEMMA, PLAIN_MOE, DENSE = "unsloth/gemma-4-26b-a4b-it", "Qwen/Qwen3-30B-A3B", "org/model"
MTP = """--speculative-config '{"method":"mtp","num_speculative_tokens":3}'"""
DSPARK = """--speculative-config '{"method":"dspark","model":"org/draft","num_speculative_tokens":4}'"""
NGRAM = """--speculative-config '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4}'"""
CONNECTOR = """--kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'"""


@dataclass(frozen=True)
class Case:
    """A command's words, as they would be run, and what is said of them; empty: nothing that names it."""

    words: str
    said: str
    error: bool = True
    repo: str = DENSE
    version: str | None = "0.31.0"
    env: dict[str, str] = field(default_factory=dict)
    nodes: int = 1
    stages: int = 1
    executor: str = "mp"

    @property
    def subject(self) -> Subject:
        recipe = PLAIN.model_copy(
            update={
                "flags": tuple(served(f"vllm serve {self.repo} {self.words}", {}).flags),
                "env": self.env,
                "model": PLAIN.model.model_copy(update={"repo": self.repo, "block_size": None}),
                "engine_version": self.version,
            }
        )
        chosen: dict[str, Any] = {"topology": "solo", "executor": self.executor}
        if self.nodes > 1:
            chosen |= {"topology": "cluster", "pipeline_parallel": self.stages}
        return Subject(recipe, knobs(**chosen), shipped(recipe), False, self.nodes, title="vLLM")

    def remarks(self, *, error: bool) -> str:
        of = self.subject
        found = lint(of.recipe, of.knobs, nodes=of.nodes)
        return "\n".join(str(each) for each in found if each.error == error)


REFUSED = [
    Case("--max-num-batched-tokens 64 --max-num-seqs 128", "less than max-num-seqs"),
    Case("--max_num_batched_tokens=64 --max_num_seqs=128", "less than max-num-seqs", version="0.17.1"),
    Case("--no-enable-chunked-prefill --max-num-batched-tokens 8K --max-model-len 32k", "without chunked prefill"),
    Case("--max-model-len 4096 --long-prefill-token-threshold 8192", "long-prefill-token-threshold is more"),
    Case(
        "--max-model-len 4096 --long-prefill-token-threshold 8192 --max-num-partial-prefills 2",
        "long-prefill-token-threshold is more",
        version="0.26.0",
    ),
    Case(
        f"--enable-lora --lora-modules a=b/c --max-num-seqs 64 --max-num-batched-tokens 128 {MTP}",
        "num_speculative_tokens + 1",
    ),
    Case("--enable-lora --max-loras 8 --max-cpu-loras 4", "max-cpu-loras is less"),
    Case("""--attention-backend FLASHINFER -ac '{"backend":"TRITON_ATTN"}'""", "attention-config's backend both"),
    Case("--attention-backend FLASHINFER --attention-config.backend=TRITON_ATTN", "attention-config's backend both"),
    Case(
        """--enable-flashinfer-autotune --kernel-config '{"enable_flashinfer_autotune":false}'""",
        "enable_flashinfer_autotune both",
    ),
    Case(
        "--no-enable-flashinfer-autotune --kernel-config.enable_flashinfer_autotune False",
        "no-enable-flashinfer-autotune and",
    ),
    Case("""--cudagraph-capture-sizes 1 2 4 -cc '{"cudagraph_capture_sizes":[1,2]}'""", "cudagraph_capture_sizes both"),
    Case("--max-cudagraph-capture-size 8 -cc.max_cudagraph_capture_size=4", "max_cudagraph_capture_size both"),
    Case(f"--spec-method ngram {MTP}", "spec-method and speculative-config's method"),
    Case(f"--spec-model org/draft {DSPARK}", "spec-model and speculative-config's model"),
    Case(f"--spec-tokens 2 {MTP}", "spec-tokens and"),
    Case("--enable-eplb", "enable-expert-parallel is not on", nodes=2),
    Case("--enable-eplb --enable-expert-parallel", "nothing to balance"),
    Case("--enable-eplb -ep", "nothing to balance"),
    Case("""--eplb-config '{"num_redundant_experts":2}' -ep""", "enable-eplb is not on", nodes=2),
    Case("-dcp 2", "does not divide the 3 ranks", nodes=3),
    Case("--api-server-count 4", "no server", nodes=2),
    Case("-asc 2", "no server", nodes=2),
    Case("--ray-workers-use-nsight", "without Ray", nodes=2),
    Case("--numa-bind-nodes 0", "with numa-bind alone"),
    Case("--enable-dbo", "DeepEP", nodes=2),
    Case(CONNECTOR, "a KV connector can't register", env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,x:1"}),
    Case("--mamba-block-size 256 --no-enable-prefix-caching", "and that is off", repo=NEMOTRON),
    Case("--mamba-block-size 256", "unless it is asked for", repo=NEMOTRON, version="0.23.0"),
    Case(
        "--enable-prefix-caching --mamba-cache-mode align --no-enable-chunked-prefill", "wants chunked", repo=NEMOTRON
    ),
    Case("--enable-mamba-cache-stochastic-rounding", "mamba-ssm-cache-dtype float16", repo=NEMOTRON),
    Case("--use-replayssm --mamba-cache-mode all --enable-prefix-caching", "is all", repo=NEMOTRON, version="0.28.0"),
    Case(f"--use-replayssm {CONNECTOR}", "does not go with a KV connector", repo=NEMOTRON),
    Case(f"--use-replayssm {MTP}", "with speculative decoding", repo=NEMOTRON, version="0.27.1"),
    Case("--kv-cache-dtype nvfp4", "latent attention", repo="deepseek-ai/DeepSeek-V3.2"),
    Case("--dtype half", "does not compute in float16", repo="google/gemma-3-27b-it"),
    Case(f"--async-scheduling {NGRAM}", "drafts by ngram"),
    Case(
        """--async-scheduling --speculative-config '{"method":"mtp","disable_padded_drafter_batch":true}'""",
        "disable_padded_drafter_batch",
    ),
    Case("--speculative-config.method mtp --speculative-config.num_speculative_tokens 0", "less than 1"),
    Case("""-sc '{"model":"org/d","num_speculative_tokens":2,"tensor_parallel_size":2}'""", "call it draft_", nodes=2),
    Case("""-sc '{"model":"org/d","draft_tensor_parallel_size":4}'""", "nor the 2 of the model", nodes=2),
    Case("""-sc '{"method":"ngram","prompt_lookup_min":5,"prompt_lookup_max":2}'""", "prompt_lookup_min is more"),
    Case(NGRAM, "has no drafts by ngram", env={"VLLM_USE_V2_MODEL_RUNNER": "1"}),
    Case(DSPARK, "only the second runner", env={"VLLM_USE_V2_MODEL_RUNNER": "0"}),
    Case("--async-scheduling", "over 2 pipeline stages", nodes=2, stages=2, env={"VLLM_USE_V2_MODEL_RUNNER": "0"}),
    Case("--enable-return-routed-experts", "does not go with pipeline stages", nodes=2, stages=2),
    Case("""-ac '{"hisparse_config":{}}'""", "hisparse_config does not go", nodes=2, stages=2),
    Case("--per-request-spec-decode-metrics all", "without speculative decoding"),
    Case("--language-model-only -cc.cudagraph_mm_encoder=True", "never runs the encoder"),
    Case(f"--kv-sharing-fast-prefill {MTP}", "wrong logits"),
    Case("", "can't be cut into pipeline stages", repo=FLASH, nodes=2, stages=2),
    Case(DSPARK, "by its own MTP layer", repo=FLASH, nodes=2),
    Case("--enable-auto-tool-choice", "wants a tool-call-parser"),
    # What was seen.
    Case(f"--enable-prefix-caching {DSPARK}", "it caches in mode all", repo=NEMOTRON, version="0.27.1"),
    Case(
        "--enable_prefix_caching --spec-method dspark --spec-model org/draft",
        "it caches in mode all",
        repo=NEMOTRON,
        version="0.27.0",
    ),
    Case(
        f"--enable-prefix-caching --mamba-cache-mode=all {DSPARK}",
        "no mamba-cache-mode all",
        repo=NEMOTRON,
        version="0.30.0",
    ),
    Case("--enable-lora --lora-modules po=own/po", "names no experts", repo=GEMMA, version="0.24.0"),
    # A hybrid caches prefixes by itself since 0.26.
    Case(DSPARK, "it caches in mode all", repo=NEMOTRON, version="0.27.1"),
]
SEEN = [
    Case("--load-format instanttensor", "end a worker", False, nodes=2),
    Case("--load_format=InstantTensor", "end a worker", False, nodes=2, version=None),
    Case("--load-format fastsafetensors", "cluster of Ray's", False, nodes=2, executor="ray"),
    Case("--load-format fastsafetensors", "all memory of a Spark", False, repo=GEMMA),
    Case(f"--enable-prefix-caching {DSPARK}", "or to give wrong tokens", False, repo=NEMOTRON, version=None),
    Case(f"--enable-prefix-caching {MTP}", "prompt of whole blocks", False, repo=NEMOTRON, version="0.23.0"),
    Case(f"--enable-prefix-caching {MTP}", "wrong answers in vLLM 0.28.0", False, repo=QWEN, version="0.28.0"),
    Case("--enable-prefix-caching", "seen never to hit", False, repo=NEMOTRON),
    Case("--enable-prefix-caching", "shorter than a block (528", False, repo=QWEN, version="0.26.0"),
    Case("--enable-lora --lora-modules po=own/po", "byte for byte", False, repo=GEMMA),
    Case("""--lora-modules '{"name":"po","path":"own/po"}'""", "byte for byte", False, repo=GEMMA, version=None),
    Case("--enable-lora --lora-modules po=own/po", "fit no layer", False, repo=PLAIN_MOE),
    Case("--enable-lora", "in loops", False, repo=QWEN),
    Case("", "pipeline stages tune other", False, nodes=2, stages=2),
    Case("--cpu-offload-gb 20", "stays in the same memory", False),
    Case("--kv-offloading-size 20", "stays in the same memory", False),
    Case("", "a table of 48", False, repo=FLASH, version=None),
]
FINE = [
    Case("--max-model-len 4096 --long-prefill-token-threshold 8192", "threshold is more", version="0.26.0"),
    Case("--mamba-block-size 256", "unless it is asked for", repo=NEMOTRON),
    Case(DSPARK, "mode all", repo=NEMOTRON, version="0.25.0"),
    Case("--max-num-batched-tokens 8192 --max-num-seqs 128", "less than max-num-seqs"),
    Case("--enable-prefix-caching --load-format instanttensor", "instanttensor"),
    Case("--load-format fastsafetensors", "fastsafetensors", nodes=2),
    Case(f"--enable-prefix-caching --mamba-cache-mode align {DSPARK}", "mode all", repo=NEMOTRON, version="0.27.1"),
    Case(f"--no-enable-prefix-caching {DSPARK}", "mode all", repo=NEMOTRON, version="0.27.1"),
    Case(f"--enable-prefix-caching --no-enable-prefix-caching {DSPARK}", "mode all", repo=NEMOTRON, version="0.27.1"),
    Case(f"--enable-prefix-caching {DSPARK}", "prefix caching", repo=DENSE, version="0.27.1"),
    Case("--enable-prefix-caching", "never to hit", repo=QWEN),
    Case("--enable-lora --lora-modules po=own/po", "base's", repo="meta-llama/Llama-3.1-8B-Instruct"),
    Case("--api-server-count 4", "no server"),
    Case("--api-server-count 4", "no server", nodes=2, executor="ray"),
    Case("--no-enable-flashinfer-autotune", "tune other", nodes=2, stages=2),
    Case("", "tune other", nodes=2, stages=2, version="0.32.0"),
    Case("--enable-eplb -ep", "balance", nodes=2),
    Case("-dcp 2", "does not divide", nodes=2),
    Case(CONNECTOR, "register"),
    Case(f"--async-scheduling {MTP}", "async-scheduling"),
    Case("--dtype bfloat16", "float16", repo="google/gemma-3-27b-it"),
    Case("", "a table of 48", repo=FLASH, nodes=2),
    Case("--enable-auto-tool-choice --tool-call-parser hermes", "tool-call-parser"),
]


@pytest.mark.parametrize("case", [*REFUSED, *SEEN], ids=lambda case: f"{case.said[:40]} {case.version}")
def test_what_does_not_go_together_is_said_with_where_it_is_known_from(case: Case) -> None:
    shlex.split(case.words)
    found = case.remarks(error=case.error)
    assert case.said in found, f"{found}\n---\n{case.remarks(error=not case.error)}"


@pytest.mark.parametrize("case", FINE, ids=lambda case: f"{case.said[:30]} {case.words[:40]}")
def test_each_of_them_alone_is_fine(case: Case) -> None:
    of = case.subject
    known = [pair.problem for pair in EVERY if pair.is_of(of.version) and pair.when(Said(of))]
    assert not any(case.said in problem for problem in known), known


def test_every_pair_is_tried() -> None:
    tried = [case.subject for case in (*REFUSED, *SEEN)]
    idle = [p.problem for p in EVERY if not any(p.is_of(of.version) and p.when(Said(of)) for of in tried)]
    assert not idle
    assert all(pair.source and pair.remedy for pair in EVERY)


def test_a_release_outside_of_a_pair_s_has_it_not() -> None:
    words = f"--enable-prefix-caching {DSPARK}"
    newer = Case(words, "", repo=NEMOTRON, version="0.33.0")
    assert "mode all" not in newer.remarks(error=True)
    assert "drafts by ngram" not in Case(f"--async-scheduling {NGRAM}", "", version="0.33.0").remarks(error=True)


def test_where_no_version_is_known_nothing_is_an_error_by_a_pair() -> None:
    """It may be a build that has learnt it since."""
    case = Case("--enable-eplb", "", version=None, nodes=2)
    assert "enable-expert-parallel" in case.remarks(error=False)
    assert "enable-expert-parallel" not in case.remarks(error=True)


def test_a_variable_of_a_build_s_own_is_kept() -> None:
    case = Case("", "", version=None, env={"VLLM_PLE_TABLE_MEMORY": "disk"})
    assert "keep it if it is one of this image's own" in case.remarks(error=False)


def test_the_recipe_that_no_pair_is_about_is_the_shipped_one() -> None:
    recipe: Recipe = load_recipe("nemotron-3-super-nvfp4-auto")
    of = Subject(recipe, knobs(), shipped(recipe), False, title="vLLM")
    assert not [pair.problem for pair in EVERY if pair.is_of(of.version) and pair.when(Said(of))]


def test_a_configuration_is_read_under_its_short_name_too() -> None:
    for flag in ("--speculative-config", "-sc"):
        of = Case(f"""{flag} '{{"method":"mtp","num_speculative_tokens":3}}'""", "").subject
        assert Said(of).part("speculative-config", "method") == "mtp"
