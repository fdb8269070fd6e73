"""What engines count themselves (vLLM's /metrics), and how evenly they are busy meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.routing.http import request

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
    async with request(f"{engine}/metrics") as response:
        lines = [line.decode() async for line in response.lines()]
    sums: dict[str, float] = {}
    for line in lines:
        if line.startswith("vllm:"):
            name = line.removeprefix("vllm:").partition("{")[0].split()[0]
            sums[name] = sums.get(name, 0) + float(line.rpartition(" ")[2])
    busy = sums.get("num_requests_running", 0) + sums.get("num_requests_waiting", 0)
    names = ("request_success", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits")
    requests, tokens, queries, hits = (sums.get(f"{name}_total", 0) for name in names)
    return Counts(requests, tokens, queries, hits, busy)


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
