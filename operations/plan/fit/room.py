"""Room for a model on Sparks: by topology and number of nodes, and what would have to change where there is none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from operations.plan.config.knobs import Topology
from operations.plan.config.spark import FLOOR_GIB, IDLE_GIB, MOST_SHARE, SPARK_GIB
from operations.plan.fit.shape import BYTES, GIB, Shape
from operations.plan.fit.weights import Weights
from operations.plan.recipes.lint.room import BESIDE_GIB

#: Context lengths that a table has besides the one that was asked for.
CONTEXTS = (8192, 32768, 131072)
#: Nodes that are looked at for what would have to change.
MOST_NODES = 8
#: Bits of a weight in builds of 4 bits, scales included; the rest stays in 16.
SMALL = {"experts": 4.5, "dense": 4.5, "mixers": 4.5}


@dataclass(frozen=True)
class Model:
    """What is to be served. `weights_gib`: of all that is loaded; `cache_type`: of the KV cache, one of `BYTES`;
    `share`: of a node's memory that the engine takes; `cache_gib`: of a KV cache that is pinned; 0: it is not.
    `start_gib`: that a start wants to find free (plan/services/demand.py); 0: the share, and the guard's floor.
    """

    shape: Shape
    weights_gib: float
    cache_type: str
    share: float = MOST_SHARE
    cache_gib: float = 0.0
    start_gib: float = 0.0


@dataclass(frozen=True)
class FitRequest:
    """How many users at once, and how many tokens each has: question and answer together."""

    context: int
    users: int


@dataclass(frozen=True)
class Place:
    """A topology over so many nodes. `stages`: of a pipeline; 1: none."""

    topology: Topology
    nodes: int
    stages: int = 1

    @property
    def parts(self) -> int:
        """Nodes that share the weights."""
        return self.nodes if self.topology == "cluster" else 1

    @property
    def engines(self) -> int:
        """Engines side by side."""
        return self.nodes if self.topology == "replicas" else 1

    def __str__(self) -> str:
        if self.topology == "solo":
            return "solo"
        return f"pipeline of {self.nodes}" if self.stages > 1 else f"{self.topology} of {self.nodes}"


@dataclass(frozen=True)
class Room:
    """A place with what is left there. GiB of each node: `weights_gib`, `cache_gib` for the KV cache (None: it can't be
    counted; below 0: the weights alone are too much). `users` by context, of all engines together; `longest`: tokens of
    one request alone. `problem`: why nothing fits; empty: something does.
    """

    place: Place
    weights_gib: float
    cache_gib: float
    users: dict[int, int]
    longest: int
    problem: str = ""

    def holds(self, asked: FitRequest) -> bool:
        """Whether it has room for what was asked."""
        return not self.problem and self.users.get(asked.context, 0) >= asked.users


def places(most: int) -> Iterator[Place]:
    """Solo; clusters, pipelines and replicas of two to `most` nodes."""
    yield Place("solo", 1)
    for nodes in range(2, most + 1):
        yield Place("cluster", nodes)
        yield Place("cluster", nodes, stages=nodes)
        yield Place("replicas", nodes)


def room(model: Model, place: Place, contexts: Iterable[int]) -> Room:
    """What a place has room for. A node's memory is the smallest that a Spark has, the share the most that an idle one
    gives (operations/plan/config/spark.py), and beside weights and KV cache the same is left as admission leaves.
    """
    shape = model.shape
    # The stage that has the most layers.
    part = math.ceil(shape.layers / place.stages) / shape.layers if place.stages > 1 else 1 / place.parts
    weights = model.weights_gib * part
    left = model.cache_gib or model.share * min(SPARK_GIB) - weights - BESIDE_GIB
    none = Room(place, weights, left, {}, 0)
    ranks = place.parts if place.stages == 1 else 1
    if (wanted := model.start_gib or model.share * max(SPARK_GIB) + FLOOR_GIB) > max(IDLE_GIB):
        problem = f"a start wants {wanted:.1f} GiB free, an idle Spark has {max(IDLE_GIB):g} at most"
        return replace(none, problem=problem)
    if place.stages > shape.layers:
        return replace(none, problem=f"{shape.layers} layers are no {place.stages} stages")
    if shape.heads and shape.heads % ranks:
        return replace(none, problem=f"{shape.heads} heads can't be divided by {ranks}")
    over = weights + BESIDE_GIB + max(model.cache_gib, 0) - model.share * min(SPARK_GIB)
    if over > 0:
        return replace(none, problem=f"{over:.1f} GiB of each node too much")
    if shape.unknown:
        return none
    # A stage has its layers' part of the cache.
    bytes_ = left * GIB / (part if place.stages > 1 else 1)
    users = {
        context: int(bytes_ / shape.held(context, model.cache_type, ranks)) * place.engines for context in contexts
    }
    longest = shape.longest(bytes_, model.cache_type, ranks)
    problem = "" if longest else "no room for a token beside the weights"
    return Room(place, weights, left, users, min(longest, shape.context or longest), problem)


def rooms(model: Model, most: int, contexts: Iterable[int]) -> list[Room]:
    """The room of each place with up to so many nodes."""
    asked = sorted(set(contexts))
    return [room(model, place, asked) for place in places(most)]


def changes(model: Model, asked: FitRequest, most: int, weights: Weights | None = None) -> Iterator[str]:
    """What would have to change for what was asked, a line each; nothing where it fits on `most` nodes. `weights`:
    as the configuration makes them; None: it does not say enough.
    """
    found = rooms(model, most, (asked.context,))
    if any(each.holds(asked) for each in found):
        return
    told = replace(model, share=MOST_SHARE, start_gib=0.0)
    if model.share > MOST_SHARE and any(each.holds(asked) for each in rooms(told, most, (asked.context,))):
        yield f"a lower share of a node's memory: {MOST_SHARE} (gpu-memory-utilization of vLLM)"
    yield from _smaller(model, asked, found)
    if more := _fewest(model, asked, range(most + 1, MOST_NODES + 1)):
        yield f"more nodes: a {more}"
    if BYTES[model.cache_type] > 1 and not model.shape.unknown:
        fp8 = replace(model, cache_type="fp8")
        if where := next((each for each in rooms(fp8, most, (asked.context,)) if each.holds(asked)), None):
            yield f"a KV cache in FP8 (kv-cache-dtype: fp8): {where.place}"
    yield from _build(model, asked, most, weights)


def _smaller(model: Model, asked: FitRequest, found: Sequence[Room]) -> Iterator[str]:
    """A shorter context, or fewer users, where the weights fit."""
    fit = [each for each in found if not each.problem and not model.shape.unknown]
    if not fit:
        return
    users, where = max(((each.users[asked.context], each.place) for each in fit), key=lambda each: each[0])
    if users:
        yield f"fewer users: {users} at {asked.context:,} tokens ({where})"
    tokens, where = max(
        ((_longest_for(model, each.place, asked.users), each.place) for each in fit), key=lambda e: e[0]
    )
    if tokens:
        yield f"a lower context: {tokens:,} tokens for {asked.users} ({where})"


def _longest_for(model: Model, place: Place, users: int) -> int:
    """Tokens that each of so many users can have, in steps of 1024."""
    low, high = 0, (model.shape.context or 2**24) // 1024
    while low < high:
        middle = (low + high + 1) // 2
        enough = room(model, place, (middle * 1024,)).users.get(middle * 1024, 0) >= users
        low, high = (middle, high) if enough else (low, middle - 1)
    return low * 1024


def _fewest(model: Model, asked: FitRequest, counts: Iterable[int]) -> Place | None:
    """The smallest cluster or pipeline that has room."""
    both = (place for nodes in counts for place in (Place("cluster", nodes), Place("cluster", nodes, stages=nodes)))
    known = not model.shape.unknown
    for place in both:
        found = room(model, place, (asked.context,))
        if found.holds(asked) if known else not found.problem:
            return place
    return None


def _build(model: Model, asked: FitRequest, most: int, weights: Weights | None) -> Iterator[str]:
    """How small a build would have to be, and whether one of 4 bits is."""
    low, high = 0.0, model.weights_gib
    while high - low > 0.5:
        middle = (low + high) / 2
        fits = any(
            not each.problem if model.shape.unknown else each.holds(asked)
            for each in rooms(replace(model, weights_gib=middle), most, (asked.context,))
        )
        low, high = (middle, high) if fits else (low, middle)
    if low < 1:
        return
    text = f"a smaller build: {math.floor(low)} GiB of weights at most, this one has {model.weights_gib:.0f}"
    if weights:
        bits, four = low * GIB * 8 / weights.total, weights.gib(SMALL)
        text += f"; that is {bits:.1f} bits a weight, and one of 4 bits (NVFP4, AWQ) has about {four:.0f} GiB"
    yield text
