"""What a model keeps of a request while it answers: bytes a token, and bytes a request."""

from __future__ import annotations

import math
from dataclasses import dataclass

GIB = 2**30
#: Bytes of a value in the KV cache, with its part of a scale: NVFP4 has 8 bits for 16 values, llama.cpp 16 for 32.
BYTES = {"bf16": 2.0, "f16": 2.0, "fp8": 1.0, "int8": 1.0, "nvfp4": 0.5625, "q8_0": 1.0625, "q5_1": 0.75}
BYTES |= {"f32": 4.0, "q5_0": 0.6875, "q4_1": 0.625, "q4_0": 0.5625}
_SAME = {"bfloat16": "bf16", "float16": "f16", "half": "f16", "fp16": "f16", "float32": "f32"}
#: What stands for the checkpoint's own type.
AUTO = ("", "auto")


@dataclass(frozen=True)
class Cache:
    """Layers that keep something of each token. `heads`: KV heads, which the ranks of a cluster divide; 0: each rank
    has all of it (MLA's latent). `values`: of a head and token, key and value together.

    `window`: tokens that are kept at most; 0: all. `every`: tokens that share one entry. `index`: bytes of an entry
    beside the values, whatever their type. `fp8`: bytes of an entry in FP8, where that is not one a value.
    """

    layers: int
    heads: int
    values: int
    window: int = 0
    every: int = 1
    index: float = 0.0
    fp8: int = 0

    def entry(self, cache_type: str, ranks: int = 1) -> float:
        """Bytes of one entry in all of these layers, on each rank."""
        heads = math.ceil(self.heads / ranks) if self.heads else 1
        own = heads * self.values * BYTES[cache_type]
        if self.fp8 and cache_type == "fp8":
            own = self.fp8
        return self.layers * (own + self.index)

    def held(self, tokens: float, cache_type: str, ranks: int = 1) -> float:
        """Bytes of a request of so many tokens, on each rank."""
        kept = min(tokens, self.window) if self.window else tokens
        return kept / self.every * self.entry(cache_type, ranks)


@dataclass(frozen=True)
class State:
    """Layers with a state whose size no token changes (Mamba, linear attention). `size`: bytes of one layer; ranks of a
    cluster divide it by its `heads`.
    """

    layers: int
    heads: int
    size: float

    def held(self, ranks: int = 1) -> float:
        """Bytes of a request, on each rank."""
        return self.layers * self.size * math.ceil(self.heads / ranks) / self.heads


@dataclass(frozen=True)
class Shape:
    """A model as its configuration tells it; 0 and empty: it is not said.

    `cache_type`: of the KV cache, where the checkpoint says one. `unknown`: why the KV cache can't be counted;
    `uncounted`: what of it is left out.
    """

    architecture: str
    layers: int
    heads: int
    context: int = 0
    caches: tuple[Cache, ...] = ()
    states: tuple[State, ...] = ()
    cache_type: str = ""
    unknown: str = ""
    uncounted: tuple[str, ...] = ()
    mtp: bool = False
    quantised: str = ""
    remote_code: bool = False

    def typed(self, said: str) -> str:
        """The KV cache's type: `said` by an owner or a recipe, else the checkpoint's, else 16 bits. Raises KeyError for
        one whose bytes are not known.
        """
        name = self.cache_type or "bf16" if said in AUTO else _SAME.get(said, said)
        name = "fp8" if name.startswith("fp8") else name
        if name not in BYTES:
            raise KeyError(name)
        return name

    def token(self, cache_type: str, ranks: int = 1) -> float:
        """Bytes that one more token takes of each rank, behind all windows."""
        return sum(each.entry(cache_type, ranks) / each.every for each in self.caches if not each.window)

    def fixed(self, cache_type: str, ranks: int = 1) -> float:
        """Bytes of a long request that no further token adds to, on each rank: windows, and states."""
        windows = sum(each.held(each.window, cache_type, ranks) for each in self.caches if each.window)
        return windows + sum(each.held(ranks) for each in self.states)

    def held(self, tokens: float, cache_type: str, ranks: int = 1) -> float:
        """Bytes of a request of so many tokens, on each rank."""
        kept = sum(each.held(tokens, cache_type, ranks) for each in self.caches)
        return kept + sum(each.held(ranks) for each in self.states)

    def longest(self, room: float, cache_type: str, ranks: int = 1) -> int:
        """Tokens of the longest request that so many bytes of each rank have room for; 0: none."""
        if self.held(1, cache_type, ranks) > room:
            return 0
        low, high = 1, 2
        while high <= 2**32 and self.held(high, cache_type, ranks) <= room:
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.held(middle, cache_type, ranks) <= room else (low, middle)
        return low
