"""A recipe of what is known of a model, in Tandem's own format; what is not known is a question in it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from operations.plan.fit.room import FitRequest, Model, Room
from operations.plan.recipes.recipe import Recipe

#: How a question begins: `grep QUESTION FILE` lists them.
QUESTION = "# QUESTION:"
#: What vLLM calls the types of a KV cache that it has (`--kv-cache-dtype`).
VLLM_TYPES = {"bf16": "bfloat16", "fp8": "fp8", "nvfp4": "nvfp4"}
#: Requests at once that a recipe is given at most; more are a matter of measuring.
MOST_REQUESTS = 64


@dataclass(frozen=True)
class Facts:
    """`name`: the recipe's; `disk_gib`: of all files that are fetched; `like`: a recipe whose image is taken."""

    name: str
    repo: str
    revision: str
    model: Model
    disk_gib: float
    gated: bool
    like: Recipe


def recipe(of: Facts, asked: FitRequest, rooms: Sequence[Room]) -> str:
    """The text of the file. `rooms`: those that have room for what was asked, and at least one."""
    return "".join(f"{line}\n" for line in _lines(of, asked, rooms))


def _lines(of: Facts, asked: FitRequest, rooms: Sequence[Room]) -> Iterator[str]:
    shape, like = of.model.shape, of.like
    topologies = list(dict.fromkeys(each.place.topology for each in rooms))
    clusters = [each.place for each in rooms if each.place.topology == "cluster"]
    first = min(clusters, key=lambda each: (each.nodes, each.stages)) if clusters else None
    yield f"# {of.repo}, written by `tandem fit` of what the Hub says of it. Nobody has started it with these words."
    yield f"{QUESTION} {{answer each of these lines, or take it out}}"
    yield f"name: {json.dumps(of.name)}"
    yield f"description: {json.dumps(f'{shape.architecture}, {of.model.weights_gib:.0f} GiB of weights')}"
    yield f"source: https://huggingface.co/{of.repo}/tree/{of.revision}"
    yield f"engine: {like.engine}"
    yield f"{QUESTION} does {like.engine} {like.engine_version} serve {shape.architecture}? The image is {like.name}'s."
    yield f"engine_version: {like.engine_version}"
    yield f"image: {like.image}"
    yield "model:"
    yield f"  repo: {of.repo}"
    yield f"  revision: {of.revision}"
    yield f"  weights_gib: {of.model.weights_gib:.2f}"
    if shape.mtp:
        yield "  mtp: true"
    yield f"served_name: {json.dumps(re.sub(r'[^a-z0-9.-]+', '-', of.repo.partition('/')[2].lower()))}"
    yield f"topologies: [{', '.join(topologies)}]"
    if first and first.nodes > 2:
        yield f"min_nodes: {first.nodes}"
    if first and first.stages > 1:
        yield f"pipeline_parallel: {first.stages}"
    yield "needs:"
    yield "  gpu: true"
    yield f"  model_disk_gib: {math.ceil(of.disk_gib)}"
    yield f"  image_disk_gib: {like.needs.image_disk_gib:g}"
    yield f"gated: {'true' if of.gated else 'false'}"
    yield f"{QUESTION} how long does it load? A guess of 15 minutes, and one for each 4 GiB of a node."
    yield f"load_minutes: {15 + math.ceil(max(each.weights_gib for each in rooms) / 4)}"
    yield "flags:"
    yield from (f"  {line}" for line in _flags(of, asked, rooms))
    yield f"{QUESTION} which kernels should its log name, and which not? (docs/recipes.md in the clone, proof)"


def _flags(of: Facts, asked: FitRequest, rooms: Sequence[Room]) -> Iterator[str]:
    shape = of.model.shape
    yield f"gpu-memory-utilization: {of.model.share:g}"
    yield f"max-model-len: {asked.context}"
    users = min(each.users[asked.context] // each.place.engines for each in rooms)
    yield f"# So many have room at {asked.context:,} tokens each, and {MOST_REQUESTS} at most."
    yield f"max-num-seqs: {max(1, min(users, MOST_REQUESTS))}"
    if of.model.cache_type != shape.typed(""):
        yield f"{QUESTION} is its text good enough with a KV cache in {of.model.cache_type.upper()}?"
        yield f"kv-cache-dtype: {VLLM_TYPES[of.model.cache_type]}"
    yield f"{QUESTION} which parser reads its tool calls, and which its reasoning? (`tandem recipes` of its family)"
    yield "# enable-auto-tool-choice: true"
    yield "# tool-call-parser:"
    yield "# reasoning-parser:"
    if shape.remote_code:
        yield f"{QUESTION} it has code of its own; shall the engine run that, unread?"
        yield "# trust-remote-code: true"
    if shape.mtp:
        yield f"{QUESTION} it has layers for multi-token prediction; how many tokens shall they draft?"
        yield "# speculative-config: {method: mtp, num_speculative_tokens: 2}"
    if shape.states:
        yield f"{QUESTION} do its states want another type or block? (mamba-ssm-cache-dtype, mamba-block-size)"
