"""An estimate from first principles: what one step has to read, compute and send.

A step over some tokens reads the weights that they touch and the KV cache of their requests at the memory's bandwidth,
and each layer costs a fixed time. Prefill computes as well: two operations a token and active parameter. In a cluster
all of that is divided by the nodes, and each all-reduce costs its latency and its bytes on the link. A burst of
requests is prefilled in steps of so many tokens, and then decoded together; its figures are those that a bench sees:
decode runs from the first token of the first answer to the last of all, so others' prefill is in it.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields

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


#: Fitted to every table that is here; a test fits them again.
FITTED = Constants(layer_us=47.6, reduce_us=99.7, link_gb_s=9.94, tflops=47.8)


@dataclass(frozen=True)
class Burst:
    """So many requests that begin together on one engine; seconds."""

    prefilled: float
    #: When each has its first token.
    firsts: tuple[float, ...]
    done: float

    @property
    def ttft(self) -> float:
        return sum(self.firsts) / len(self.firsts)


@dataclass(frozen=True)
class Estimate:
    """Tokens a second of all users together; seconds."""

    prefill: float
    decode: float
    ttft: float
    #: Until a user has the whole answer, and tokens a second that one user sees.
    whole: float
    user: float


@dataclass(frozen=True)
class Engine:
    """One engine over `nodes` nodes."""

    model: Model
    nodes: int
    kv_bytes: float = 1.0
    constants: Constants = FITTED

    def decode_step(self, users: int, context: float) -> float:
        """Seconds for one more token of each user."""
        # A state is read and written.
        cache = users * (self.model.held(context, self.kv_bytes) + self.model.state_mib * 2**20)
        read = (self.model.read(users) + cache) / self.nodes
        return read / (REACHED * BANDWIDTH) + self._fixed() + self._link(users)

    def prefill_step(self, tokens: float) -> float:
        """Seconds for so many tokens of prompts."""
        read = self.model.read(tokens) / self.nodes / (REACHED * BANDWIDTH)
        compute = tokens * 2 * self.model.active * 1e9 / self.nodes / (self.constants.tflops * 1e12)
        return read + compute + self._fixed() + self._link(tokens)

    def burst(self, users: int, prompt: int, answer: int) -> Burst:
        """All of them at once."""
        whole, rest = divmod(users * prompt, STEP_TOKENS)
        a_step = self.prefill_step(STEP_TOKENS) if whole else 0.0
        prefilled = whole * a_step + (self.prefill_step(rest) if rest else 0.0)
        ends = [math.ceil(number * prompt / STEP_TOKENS) for number in range(1, users + 1)]
        firsts = tuple(end * a_step if end <= whole else prefilled for end in ends)
        done = prefilled + (answer - 1) * self.decode_step(users, prompt + answer / 2)
        return Burst(prefilled, firsts, done)

    def _fixed(self) -> float:
        return self.model.layers * self.constants.layer_us * 1e-6

    def _link(self, tokens: float) -> float:
        if self.nodes == 1:
            return 0.0
        # BF16; a ring moves twice (n-1)/n of it, which is 1 between two nodes.
        sent = tokens * self.model.hidden * 2 * 2 * (self.nodes - 1) / self.nodes
        return self.model.reduces * (self.constants.reduce_us * 1e-6 + sent / (self.constants.link_gb_s * 1e9))


def one_engine(engine: Engine, users: int, prompt: int, answer: int) -> Estimate:
    """Solo, or a cluster."""
    return _seen([engine.burst(users, prompt, answer)], prompt, answer)


def several(engine: Engine, engines: int, routing: str, users: int, prompt: int, answer: int) -> Estimate:
    """Replicas: what is expected over the ways in which the proxy may share the requests out."""
    burst = functools.cache(lambda count: engine.burst(count, prompt, answer))
    sums = [0.0] * len(fields(Estimate))
    for counts, chance in shares(users, engines, routing):
        seen = _seen([burst(count) for count in counts if count], prompt, answer)
        sums = [total + chance * value for total, value in zip(sums, astuple(seen), strict=True)]
    return Estimate(*sums)


def shares(users: int, engines: int, routing: str) -> Iterator[tuple[tuple[int, ...], float]]:
    """How requests may lie on engines, and how likely that is."""
    if routing == "balanced":
        yield tuple(users // engines + (number < users % engines) for number in range(engines)), 1.0
    elif routing == "least-busy":
        # A burst is chosen for before it is counted: all of it on the first.
        yield (users, *(0,) * (engines - 1)), 1.0
    elif engines == 2:
        for count in range(users + 1):
            chance = math.comb(users, count) / 2**users
            if chance > 1e-5:
                yield (count, users - count), chance
    else:
        chooser, draws = random.Random(0), 200
        for _ in range(draws):
            drawn = [chooser.randrange(engines) for _ in range(users)]
            yield tuple(drawn.count(number) for number in range(engines)), 1 / draws


def _seen(bursts: list[Burst], prompt: int, answer: int) -> Estimate:
    users = sum(len(each.firsts) for each in bursts)
    first = min(each.firsts[0] for each in bursts)
    ttft = sum(sum(each.firsts) for each in bursts) / users
    whole = sum(each.done * len(each.firsts) for each in bursts) / users
    return Estimate(
        prefill=users * prompt / max(each.prefilled for each in bursts),
        decode=users * (answer - 1) / (max(each.done for each in bursts) - first) if answer > 1 else math.nan,
        ttft=ttft,
        whole=whole,
        user=(answer - 1) / (whole - ttft) if answer > 1 else math.nan,
    )
