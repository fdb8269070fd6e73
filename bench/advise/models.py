"""What is known of models and of the machine, for estimates."""

from __future__ import annotations

import functools
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict

from operations.plan.engines import ENGINES
from operations.plan.engines.base import value_bytes
from operations.plan.recipes.recipe import Recipe

_FILE = Path(__file__).with_name("models.yaml")
GIB = 2**30
#: A DGX Spark: bytes a second of its memory, and what of its 128 GB the GPU is told ([B]; public logs of vLLM).
BANDWIDTH = 273e9
VISIBLE_GIB = 119.7
#: Of that bandwidth, what a kernel reaches.
REACHED = 0.9
#: Taken for activations, graphs and what else an engine holds, GiB a node.
HELD_GIB = 3.0
#: Of memory, where neither a recipe nor its engine's class says a share; vLLM's own default of the tokens that one step
#: computes at most.
UTILIZATION, STEP_TOKENS = 0.9, 8192


class Model(BaseModel):
    """See models.yaml. `dense_bits`: of a weight outside the routed experts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    total: float
    active: float
    experts: int
    chosen: int
    expert_bits: float
    layers: int
    hidden: int
    reduces: int
    kv: int
    kv_near: int = 0
    near: int = 0
    state_mib: float = 0
    dense_bits: float = 16
    attends: int = 0
    context: int | None = None

    @property
    def in_experts(self) -> float:
        """Billions of parameters in routed experts."""
        return 0.0 if self.experts == 1 else (self.total - self.active) / (1 - self.chosen / self.experts)

    def read(self, tokens: float) -> float:
        """Bytes of weights that a step over so many tokens reads: the more tokens, the more experts are chosen."""
        touched = 1 - (1 - self.chosen / self.experts) ** tokens if self.experts > 1 else 0.0
        dense = (self.total - self.in_experts) * self.dense_bits
        return (dense + self.in_experts * self.expert_bits * touched) / 8 * 1e9

    def held(self, tokens: float, kv_bytes: float) -> float:
        """Bytes that a request of so many tokens keeps in the KV cache."""
        values = tokens * self.kv + min(tokens, self.near) * self.kv_near
        return values * kv_bytes + self.state_mib * 2**20


@functools.cache
def _known() -> dict[str, Model]:
    return {name: Model.model_validate(facts) for name, facts in yaml.safe_load(_FILE.read_text()).items()}


def known(repo: str, weights_gib: float | None, dense_bits: float | None = None) -> Model | None:
    """A model by its repository; its dense weights have the bits that its size leaves for them, or those given.

    None: nothing is known of it.
    """
    model = _known().get(repo)
    if model is None or dense_bits is not None:
        return model and model.model_copy(update={"dense_bits": dense_bits})
    if weights_gib is None:
        return model
    dense = model.total - model.in_experts
    left = (weights_gib * GIB * 8 / 1e9 - model.in_experts * model.expert_bits) / dense
    return model.model_copy(update={"dense_bits": min(max(left, model.expert_bits), 16.0)})


def of(recipe: Recipe) -> Model | None:
    """The model that a recipe serves; None: nothing is known of it."""
    return known(recipe.model.repo, recipe.model.weights_gib)


def kv_bytes(recipe: Recipe) -> float:
    """Bytes of a value in the KV cache."""
    return value_bytes(ENGINES[recipe.engine].memory(recipe).cache_type)
