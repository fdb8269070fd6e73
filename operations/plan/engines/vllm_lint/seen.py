"""Pairs of words that vLLM takes and that were seen to go wrong, most of them on DGX Sparks, with who has seen it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from operations.plan.config.refusal import Remark
from operations.plan.engines.vllm_lint.pairs import Pair, check
from operations.plan.engines.vllm_lint.said import Said
from operations.plan.recipes.lint.subject import Subject


def seen(of: Subject) -> Iterator[Remark]:
    """Those that a recipe has."""
    yield from check(PAIRS, of)


def _is_gemma4(said: Said) -> bool:
    return bool(re.search(r"gemma-?4", said.repo))


def _is_nemotron(said: Said) -> bool:
    return bool(re.search(r"nemotron-?h|nemotron-?3|nemotron-nano-(?:9|12)b-v2", said.repo))


def _is_mode_all(said: Said, by_default: bool) -> bool:
    mode = said.value("mamba-cache-mode")
    return said.has_mamba and said.caches_prefixes and (mode == "all" or (by_default and mode in ("", "none")))


PAIRS: tuple[Pair, ...] = (
    Pair(
        lambda said: said.ranks > 1 and said.value("load-format") == "instanttensor",
        "load-format instanttensor over {ranks} nodes was seen to end a worker behind its load, without a word",
        "take load-format safetensors (ten minutes in place of one) if a rank ends so",
        "eugr/spark-vllm-docker #377",
    ),
    Pair(
        lambda said: (
            said.ranks > 1 and said.of.knobs.executor == "ray" and said.value("load-format") == "fastsafetensors"
        ),
        "load-format fastsafetensors in a cluster of Ray's was seen to hang in the load",
        "take load-format safetensors, or executor=mp, if it hangs there",
        "eugr/spark-vllm-docker #29, fastsafetensors #36",
    ),
    Pair(
        lambda said: _is_gemma4(said) and said.is_moe and said.value("load-format") == "fastsafetensors",
        "{repo} was seen to take all memory of a Spark while fastsafetensors loads it",
        "take load-format safetensors",
        "eugr/spark-vllm-docker #205",
    ),
    Pair(
        lambda said: _is_mode_all(said, by_default=True) and said.method == "dspark",
        "drafts by dspark and prefix caching of a hybrid end vLLM {version} at its start: it caches in mode all",
        "set mamba-cache-mode to align, or remove enable-prefix-caching",
        "vLLM #52317",
        error=True,
        since="0.27.0",
        before="0.28.0",
    ),
    Pair(
        lambda said: _is_mode_all(said, by_default=False) and said.method in ("dspark", "dflash2"),
        "drafts by {method} run in the second runner, which has no mamba-cache-mode all",
        "set mamba-cache-mode to align",
        "vLLM #52317; config/vllm.py",
        error=True,
        since="0.28.0",
        before="0.32.0",
    ),
    Pair(
        lambda said: said.is_hybrid and said.caches_prefixes and said.method in ("dspark", "dflash", "dflash2"),
        "drafts by {method} and prefix caching of a hybrid were seen to end at the start, or to give wrong tokens",
        "leave one of them out where it does not start, or where answers count",
        "vLLM #52317, #41884, PR #54163",
        since="0.28.0",
    ),
    Pair(
        lambda said: _is_mode_all(said, by_default=True) and said.method == "mtp",
        "MTP and prefix caching of a hybrid were seen to end vLLM at its start, or at a prompt of whole blocks",
        "set mamba-cache-mode to align",
        "vLLM #39809, PR #46424",
        since="0.18.0",
        before="0.28.0",
    ),
    Pair(
        lambda said: said.is_hybrid and not said.has_mamba and said.caches_prefixes and bool(said.drafts),
        "speculative decoding and prefix caching of a hybrid were seen to give wrong answers in vLLM {version}",
        "take a newer vLLM, or leave one of them out where answers count",
        "vLLM #43559, #53912: a fifth fewer right answers",
        since="0.20.0",
        before="0.29.0",
    ),
    Pair(
        lambda said: _is_nemotron(said) and said.switch("enable-prefix-caching") is True,
        "prefix caching of {repo} was seen never to hit: nothing that is shorter than a block (2096 tokens) can, "
        "and in some builds nothing at all",
        "look at what `tandem doctor` says of it behind some hours; where it never hits, remove enable-prefix-caching",
        "vLLM #54504, #53749",
        since="0.28.0",
    ),
    Pair(
        lambda said: bool(re.search(r"qwen-?3\.[56]", said.repo)) and said.switch("enable-prefix-caching") is True,
        "prefix caching of {repo} in vLLM {version} hits nothing that is shorter than a block (528 tokens and more)",
        "look at what `tandem doctor` says of it behind some hours",
        "vLLM #51198 on a GB10, #42317, #40696",
        since="0.24.0",
        before="0.27.0",
    ),
    Pair(
        lambda said: _is_gemma4(said) and said.is_moe and said.adapters,
        "LoRA over the experts of {repo} does not start: its class names no experts to put it on",
        "take vLLM 0.25 or newer",
        "vLLM #53470; lora/utils.py",
        error=True,
        since="0.19.0",
        before="0.25.0",
    ),
    Pair(
        lambda said: _is_gemma4(said) and said.adapters,
        "adapters over {repo} were seen to load and to change nothing: answers are the base's, byte for byte",
        "the proof of a deploy compares them; where they are equal, merge the adapter into the weights",
        "vLLM #41754, on a GB10",
    ),
    Pair(
        lambda said: not _is_gemma4(said) and said.is_moe and said.adapters,
        "LoRA over a mixture of experts: parts of an adapter that fit no layer are left out in silence, and the "
        "answers may be the base's",
        "the proof of a deploy compares them; train it on the layers of attention, or merge it",
        "vLLM #41754, #33259, #40005",
    ),
    Pair(
        lambda said: said.is_hybrid and said.is_moe and said.adapters,
        "with enable-lora also the base of a hybrid mixture of experts was seen to answer otherwise, in loops",
        "serve the base without enable-lora where that counts",
        "vLLM #49063",
    ),
    Pair(
        lambda said: said.stages > 1 and said.tunes,
        "FlashInfer's tuning in vLLM {version} has all ranks wait for each other, and pipeline stages tune other "
        "kernels: such a start was seen to hang for ever on GB10s",
        "add no-enable-flashinfer-autotune, or take vLLM 0.32, which tunes each stage by itself",
        "vLLM #52291; model_executor/warmup/kernel_warmup.py",
        since="0.27.0",
        before="0.32.0",
    ),
    Pair(
        lambda said: bool(said.number("cpu-offload-gb")) or bool(said.number("kv-offloading-size")),
        "what is offloaded to the CPU stays in the same memory: a GB10 has one for both",
        "remove cpu-offload-gb and kv-offloading-size",
        "vLLM PR #56757",
    ),
    Pair(
        lambda said: "qwen3.8-flash" in said.repo and said.ranks == 1,
        "{repo} has 75 GiB of weights and a table of 48: on one node it fits only where the table stays on "
        "the disk, which is a word of some builds alone",
        "serve it as a cluster; on one node keep the build's own variable, and take fewer requests and drafts",
        "eugr/spark-vllm-docker #388: at 0.8 no KV cache was left, at 0.9 the Spark restarted",
    ),
)
