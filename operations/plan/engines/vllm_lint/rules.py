"""What people paid days for, as rules; each names where it is known from (docs/sources.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from operations.plan.config.refusal import Remark
from operations.plan.config.spark import MOST_SHARE
from operations.plan.engines import vllm_flags
from operations.plan.recipes.lint import room
from operations.plan.recipes.lint.subject import Subject, parse

#: Reasoning parsers that are in no release: they come from a plugin file in the model's repository.
PLUGIN_PARSERS = ("super_v3", "nano_v3")
_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_UNITS |= {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def plugins(of: Subject) -> Iterator[Remark]:
    """[C] and [E] name two parsers for one model: one is built in, the other comes with a file."""
    parser = of.recipe.flag("reasoning-parser")
    if parser in PLUGIN_PARSERS and of.recipe.flag("reasoning-parser-plugin") is None:
        remedy = "name the file with reasoning-parser-plugin, or use the built-in nemotron_v3"
        yield Remark(True, f"reasoning-parser: `{parser}` is in no release: it comes with a plugin file", remedy)


def disabled_kernels(of: Subject) -> Iterator[Remark]:
    """vLLM splits the list at commas and strips nothing ([G])."""
    for kernel in of.recipe.env.get("VLLM_DISABLED_KERNELS", "").split(","):
        if kernel != kernel.strip():
            problem = f"VLLM_DISABLED_KERNELS: `{kernel}` has a blank and is ignored: the list is not stripped"
            yield Remark(True, problem, "write the names with a comma alone between them")


def memory(of: Subject) -> Iterator[Remark]:
    """Unified memory that runs out freezes the node ([B]; vLLM #46307, #44740, #46932)."""
    if not of.recipe.needs.gpu:
        return
    share = share_of(of)
    pinned = of.recipe.flag("kv-cache-memory-bytes") is not None
    if not pinned and share > MOST_SHARE:
        said = of.recipe.flag("gpu-memory-utilization")
        problem = f"gpu-memory-utilization is {said if said is not None else f'{share:g} (the default)'}"
        yield Remark(
            False,
            f"{problem}: on unified memory what is above {MOST_SHARE} freezes the node",
            f"set it to {MOST_SHARE} or less",
        )
    if speculative(of) is not None and not pinned:
        problem = "with speculative decoding the CUDA-graph estimate comes out negative, and the KV cache too large"
        yield Remark(False, problem, "pin kv-cache-memory-bytes ([B]; vLLM #44740, #46932)")


def share_of(of: Subject) -> float:
    """The share of memory that vLLM takes."""
    said = of.recipe.flag("gpu-memory-utilization")
    try:
        return float(str(said)) if said is not None else default_share(of.version)
    except ValueError:
        return 0.0


def default_share(version: str | None) -> float:
    """The share that a release takes untold; the default rose with 0.20. An unknown one counts as new."""
    return 0.9 if version and (0, 2) <= parse(version) < parse("0.20") else 0.92


def fits(of: Subject) -> Iterator[Remark]:
    """Weights and a pinned KV cache against a node: whole, or one share of a cluster."""
    yield from room.fits(of, kv_gib(of), "gpu-memory-utilization", share_of(of))


def needs(of: Subject) -> Iterator[Remark]:
    """A share against the GiB that the recipe says: one share serves all topologies, so it is held against the most
    that any of them needs. A share is written in hundredths, which are more than a GiB.
    """
    said, share = of.recipe.needs.memory_gib, share_of(of)
    most, wants = max(said.values(), default=0.0), share * room.NODE_GIB
    if of.recipe.needs.gpu and most and wants - room.NODE_GIB / 100 > most:
        problem = f"memory_gib is {most:g}, and gpu-memory-utilization {share:g} wants {wants:.0f} GiB of a GB10 free"
        remedy = f"the greater counts: set the share to {most / room.NODE_GIB:.2f}, or memory_gib to {wants:.0f}"
        yield Remark(False, problem, remedy)


def kv_gib(of: Subject) -> float:
    """GiB of a pinned KV cache; 0: it is not pinned."""
    found = re.fullmatch(
        r"([0-9]+(?:\.[0-9]*)?)([kmgtKMGT]i?)?[bB]?", str(of.recipe.flag("kv-cache-memory-bytes") or "")
    )
    return float(found.group(1)) * _UNITS.get(found.group(2) or "", 1) / 2**30 if found else 0.0


def blocks(of: Subject) -> Iterator[Remark]:
    """In a hybrid the Mamba block must fit into a batch: [E], `max-num-batched-tokens >= block_size`."""
    block, batched = of.recipe.model.block_size, of.recipe.flag("max-num-batched-tokens")
    if block is None or of.recipe.flag("enable-prefix-caching") is None:
        return
    if isinstance(batched, str) and re.fullmatch(r"[0-9]{1,18}", batched) and int(batched) < block:
        problem = f"max-num-batched-tokens is {batched}, the Mamba block of this hybrid has {block} tokens"
        yield Remark(True, problem, f"set it to {block} or more ([E])")


def eager(of: Subject) -> Iterator[Remark]:
    """[E]: enforce-eager ends Nemotron-3-Super in the MoE autotuner of 0.17.1."""
    if of.recipe.flag("enforce-eager") and "Nemotron-3-Super" in of.recipe.model.repo and of.before("0.18"):
        yield Remark(True, "enforce-eager crashes this model in the MoE autotuner of vLLM 0.17", "remove it ([E])")


def speculation(of: Subject) -> Iterator[Remark]:
    """MTP wants its layer in the checkpoint; n-grams cost a quarter on prose ([B])."""
    config = speculative(of)
    if config is None:
        return
    method = str(config.get("method", ""))
    has_layer = of.mtp if of.mtp is not None else of.recipe.model.mtp
    if method.endswith("mtp") and has_layer is False:
        problem = f"speculative-config: method `{method}`, and the checkpoint has no layer for it"
        yield Remark(True, problem, "remove it: quantisers often leave num_nextn_predict_layers out ([B])")
    if method == "ngram":
        problem = "speculative-config: n-grams that never repeat cost a quarter of the speed on prose"
        yield Remark(False, problem, "measure it with your own prompts ([B]: 74.75 -> 55.70 tokens/s)")


def speculative(of: Subject) -> dict[str, object] | None:
    """The speculative configuration; None: there is none."""
    return vllm_flags.speculative(of.recipe)


def ray(of: Subject) -> Iterator[Remark]:
    """Ray is a dependency of vLLM up to 0.17 alone; what the image says counts ([G])."""
    if of.knobs.topology != "cluster" or of.knobs.executor != "ray":
        return
    stock = of.recipe.image.startswith("vllm/vllm-openai") and of.since("0.18.1")
    if (of.asked and of.vocabulary.get("ray") is False) or (not of.asked and stock):
        problem = f"executor=ray: there is no Ray in this image ({of.who}; vLLM's own have none since 0.18)"
        yield Remark(True, problem, "set executor to mp, or use an image with Ray in it")
