"""An estimate from first principles: what one step has to read, compute and send.

A step over some tokens reads the weights that they touch and the KV cache of their requests at the memory's bandwidth,
and each layer costs a fixed time. Prefill computes as well: two operations a token and active parameter, and attention
to all that stands before. In a cluster all of that is divided by the nodes, and each all-reduce costs its latency and
its bytes on the link. A burst of requests is prefilled one behind the other, and then decoded together.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from bench.advise.models import BANDWIDTH, REACHED, STEP_TOKENS, Model


@dataclass(frozen=True)
class Constants:
    """What was fitted to published tables (bench/advise/fit.py)."""

    #: Microseconds that a layer of a step costs whatever it computes.
    layer_us: float
    #: Microseconds of an all-reduce of nothing. nccl-tests between two Sparks: 30 (dgx-spark-playbooks PR #103).
    reduce_us: float
    #: Of the link in an all-reduce. A port's rails have about 12 each.
    link_gb_s: float
    #: Of a node, in prefill, as it is reached.
    tflops: float
    #: Experts are not chosen evenly: the tokens of a step choose as many as their number to this power would.
    spread: float
    #: How often a layer reads and writes what it has of a token, beside its weights and its cache.
    passes: float
    #: Of a node, in attention to what stands before.
    attention_tflops: float


#: Fitted to every table that is here; a test fits them again.
FITTED = Constants(
    layer_us=88.9, reduce_us=102.6, link_gb_s=9.58, tflops=287.1, spread=0.841, passes=159.0, attention_tflops=60.5
)


@dataclass(frozen=True)
class Machine:
    """What no engine on a node exceeds: bytes a second of its memory, and TFLOP/s."""

    bandwidth: float
    tflops: float


#: Dense, in its fastest format (NVIDIA: 1 PFLOP of FP4 with sparsity).
SPARK = Machine(BANDWIDTH, 500.0)
#: Users up to which the busiest of several engines is counted exactly.
EXACT = 64


@dataclass(frozen=True)
class Point:
    """What users get who begin together; seconds.

    `first`: until the first token, their mean. `gap`: from there until the last of them has its first token.
    `step`: from one token of an answer to the next, when all are written. Each is 0 or more, and none falls with users.
    """

    first: float
    gap: float
    step: float

    def pace(self, answer: int) -> float:
        """Seconds a token behind the first, others' prefill in it."""
        return self.gap / max(answer - 1, 1) + self.step

    def whole(self, answer: int) -> float:
        """Until the whole answer is there."""
        return self.first + self.gap + (answer - 1) * self.step

    def decode(self, users: int, answer: int) -> float:
        """Tokens a second of all as a bench counts them: from the first token of the first to the last of all."""
        prefilled = self.first + self.gap
        begins = min(max(2 * self.first - prefilled, prefilled / users), self.first)
        took = prefilled - begins + (answer - 1) * self.step
        return users * (answer - 1) / took if took > 0 else math.inf


@dataclass(frozen=True)
class Engine:
    """One engine over `nodes` nodes. `slower`: times of decode and of prefill against the constants', the link apart:
    how its kernels do, where a measurement says so.
    """

    model: Model
    nodes: int
    kv_bytes: float = 1.0
    constants: Constants = FITTED
    slower: tuple[float, float] = (1.0, 1.0)
    machine: Machine = SPARK

    def least_step(self, users: int, context: float) -> float:
        """Seconds for one more token of each user below which no engine can be: what has to be read if all choose the
        same experts, at the memory's whole bandwidth.
        """
        return (self.model.read(1) + self._cache(users, context)) / self.nodes / self.machine.bandwidth

    def least_prefill(self, tokens: float) -> float:
        """Seconds for so many tokens of prompts below which no engine can be."""
        return tokens * 2 * self.model.active * 1e9 / (self.machine.tflops * 1e12) / self.nodes

    def decode_step(self, users: int, context: float) -> float:
        """Seconds for one more token of each user."""
        read = (self.model.read(users**self.constants.spread) + self._cache(users, context)) / self.nodes
        own = read / (REACHED * self.machine.bandwidth) + self._fixed() + self._passed(users)
        return max(own * self.slower[0] + self._link(users), self.least_step(users, context))

    def prefill(self, tokens: float, prompt: float) -> float:
        """Seconds for so many tokens of prompts of one length, in steps."""
        in_step = min(tokens, STEP_TOKENS)
        steps = max(tokens / STEP_TOKENS, 1.0)
        own = steps * (
            self.model.read(in_step**self.constants.spread) / self.nodes / (REACHED * self.machine.bandwidth)
            + self._fixed()
        )
        operations = tokens * 2 * self.model.active * 1e9 / (self.constants.tflops * 1e12)
        attention = tokens * 4 * self.model.attends * prompt / 2 / (self.constants.attention_tflops * 1e12)
        own += (operations + attention) / self.nodes + self._passed(tokens)
        return own * self.slower[1] + steps * self._link(in_step)

    def point(self, users: int, prompt: int, answer: int, cached: float = 0.0) -> Point:
        """So many requests that begin together."""
        tokens = max(prompt * (1 - cached), 1.0)
        prefilled = self.prefill(users * tokens, 2 * prompt - tokens)
        share = max(1 / users, min(1.0, STEP_TOKENS / (users * tokens)))
        first = prefilled * (1 + share) / 2
        return Point(first, prefilled - first, self.decode_step(users, prompt + answer / 2))

    def _cache(self, users: int, context: float) -> float:
        """Bytes; a state is read and written."""
        return users * (self.model.held(context, self.kv_bytes) + self.model.state_mib * 2**20)

    def _passed(self, tokens: float) -> float:
        """Seconds for what a layer has of so many tokens, in BF16."""
        held = tokens * self.model.layers * self.model.hidden * 2
        return held * self.constants.passes / self.nodes / (REACHED * self.machine.bandwidth)

    def _fixed(self) -> float:
        return self.model.layers * self.constants.layer_us * 1e-6

    def _link(self, tokens: float) -> float:
        if self.nodes == 1:
            return 0.0
        # BF16; a ring moves twice (n-1)/n of it, which is 1 between two nodes.
        sent = tokens * self.model.hidden * 2 * 2 * (self.nodes - 1) / self.nodes
        return self.model.reduces * (self.constants.reduce_us * 1e-6 + sent / (self.constants.link_gb_s * 1e9))


def several(engine: Callable[[int], Point], engines: int, routing: str, users: int) -> Point:
    """Replicas of an engine that gives so many users such a point. The first token is the mean user's; all else is the
    busiest engine's, which is done last.
    """
    mean, most = loads(users, engines, routing)
    first = sum(chance * engine(count).first for count, chance in mean)
    busy = [(engine(count), chance) for count, chance in most]
    prefilled = sum(chance * (point.first + point.gap) for point, chance in busy)
    step = sum(chance * point.step for point, chance in busy)
    return Point(first, max(prefilled - first, 0.0), step)


Chances = tuple[tuple[int, float], ...]


@functools.cache
def loads(users: int, engines: int, routing: str) -> tuple[Chances, Chances]:
    """How many there may be on a user's own engine, and on the busiest, each with its probability."""
    if routing == "least-busy":
        # A burst is chosen for before it is counted: all of it on the first.
        return ((users, 1.0),), ((users, 1.0),)
    if routing == "balanced":
        low, more = divmod(users, engines)
        own = [(low, (engines - more) * low / users), (low + 1, more * (low + 1) / users)]
        return tuple(each for each in own if each[1]), ((low + bool(more), 1.0),)
    own = [(count + 1, chance) for count, chance in _binomial(users - 1, 1 / engines)]
    return tuple(own), _busiest(users, engines)


def _binomial(trials: int, chance: float) -> list[tuple[int, float]]:
    found = []
    for count in range(trials + 1):
        ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
        share = math.exp(ways + count * math.log(chance) + (trials - count) * math.log1p(-chance))
        if share > 1e-7:
            found.append((count, share))
    return found


@functools.cache
def _busiest(users: int, engines: int) -> Chances:
    """The largest of a multinomial; beyond EXACT it is as far above the mean as the root of the users says."""
    if users > EXACT:
        expected = sum(count * chance for count, chance in _busiest(EXACT, engines))
        return ((math.ceil(users / engines + (expected - EXACT / engines) * math.sqrt(users / EXACT)), 1.0),)
    below, found = 0.0, []
    for most in range(1, users + 1):
        # Users on each engine up to `most`: the product of truncated exponential series.
        series = [math.exp(-math.lgamma(count + 1)) for count in range(most + 1)]
        whole = [1.0]
        for _ in range(engines):
            whole = _product(whole, series, users)
        share = whole[users] if len(whole) > users else 0.0
        up_to = share * math.exp(math.lgamma(users + 1) - users * math.log(engines))
        if up_to - below > 1e-9:
            found.append((most, up_to - below))
        below = max(below, up_to)
    return tuple(found)


def _product(one: list[float], other: list[float], most: int) -> list[float]:
    found = [0.0] * min(len(one) + len(other) - 1, most + 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other[: len(found) - i]):
            found[i + j] += a * b
    return found
