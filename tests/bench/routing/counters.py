"""What engines count themselves (vLLM's /metrics), and how evenly they are busy meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from bench.client.load import session
from operations.node.look.bench_facts import parse, sums
from operations.plan.engines import counters as names

#: Seconds between two looks at how busy they are.
LOOK_S = 0.25


@dataclass(frozen=True)
class Counts:
    """Of one engine."""

    requests: float
    #: Of answers.
    tokens: float
    queries: float
    hits: float
    #: Running and waiting.
    busy: float

    def since(self, before: Counts) -> Counts:
        """What has been counted since; `busy` as it is."""
        return Counts(
            self.requests - before.requests,
            self.tokens - before.tokens,
            self.queries - before.queries,
            self.hits - before.hits,
            self.busy,
        )


async def counts(engine: str) -> Counts:
    """Raises OSError where it does not say."""
    try:
        async with session() as http, http.get(f"{engine}/metrics") as response:
            metrics = await response.text()
    except aiohttp.ClientError as error:
        raise ConnectionError(f"{engine}: {error}") from error
    said, found = sums(metrics), parse(metrics, names()) or {}
    requests, tokens = found.get("requests", 0), found.get("answer_tokens", 0)
    busy = said.get("vllm:num_requests_running", 0) + said.get("vllm:num_requests_waiting", 0)
    return Counts(requests, tokens, found.get("prefix_asked", 0), found.get("prefix_found", 0), busy)


class Looks:
    """How evenly engines are busy: the busiest over the mean of all, by time; 1 is even, 2 is one of two alone."""

    def __init__(self, engines: Sequence[str]) -> None:
        self.engines = engines
        self.most, self.all = 0.0, 0.0

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            busy = [(await counts(engine)).busy for engine in self.engines]
            # One request can't be shared, nor can the odd one of three.
            if sum(busy) > 1:
                ideal = -(-sum(busy) // len(busy))
                self.most += max(busy)
                self.all += ideal
            await asyncio.sleep(LOOK_S)

    @property
    def skew(self) -> float | None:
        """None: there was nothing to share."""
        return self.most / self.all if self.all else None
