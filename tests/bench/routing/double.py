"""A double of a GB10 with vLLM: no model, but its times, its batch and its prefix cache.

Each step decodes one token of every running request and reads a part of the prompts that wait, as vLLM does with
chunked prefill; what it takes is fitted to the articles' solo tables (Nemotron-3-Super on one Spark): 55.8 tokens a
second of eight users, 83.5 of thirty-two, 1,450 tokens a second of prefill. The cache keeps blocks of 16 tokens, the
latest. An answer is the numbers from 0 on, one a token, and goes on behind those that its prompt ends with.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field

#: Seconds of a step, and of each request in it.
STEP_S, REQUEST_S = 0.063, 0.010
#: Prompt tokens a second, and those of one step.
PREFILL, BATCH = 1450, 2048
#: Tokens of a block of the cache, and blocks: about 400,000 tokens, what a Spark's memory leaves for a small model.
BLOCK, BLOCKS = 16, 25_000
#: Characters of a token.
CHARACTERS = 4


@dataclass
class Sequence:
    """A request in the engine."""

    prompt: str
    wanted: int
    #: Tokens of the prompt that are read.
    read: int = 0
    cached: int = 0
    answered: int = 0
    #: Where the client hears that a token is there; None is the end.
    tokens: asyncio.Queue[int | None] = field(default_factory=asyncio.Queue)

    @property
    def size(self) -> int:
        """Tokens of the prompt."""
        return max(1, len(self.prompt) // CHARACTERS)


class Double:
    """The engine behind one address; `speed`: how many times as fast as a GB10 its clock goes."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.cache: OrderedDict[int, None] = OrderedDict()
        self.counts = dict.fromkeys(("success", "queries", "hits", "prompt", "generation"), 0)
        self._work = asyncio.Event()

    def begin(self, prompt: str, wanted: int) -> Sequence:
        """Takes a request in."""
        sequence = Sequence(prompt, wanted)
        self.waiting.append(sequence)
        self._work.set()
        return sequence

    def drop(self, sequence: Sequence) -> None:
        """Its client is gone, or has everything."""
        for queue in (self.waiting, self.running):
            if sequence in queue:
                queue.remove(sequence)

    async def run(self) -> None:
        """Works for ever."""
        while True:
            if not self.waiting and not self.running:
                self._work.clear()
                await self._work.wait()
            decoding, room, took = list(self.running), BATCH - len(self.running), 0.0
            reading: list[tuple[Sequence, int]] = []
            for sequence in self.waiting:
                if room <= 0:
                    break
                if not sequence.read:
                    self._look_up(sequence)
                part = min(room, sequence.size - sequence.read)
                reading.append((sequence, part))
                room -= part
            took = sum(part for _, part in reading) / PREFILL + REQUEST_S * len(decoding)
            await asyncio.sleep((took + STEP_S) / self.speed)
            for sequence in decoding:
                self._token(sequence)
            for sequence, part in reading:
                sequence.read += part
                if sequence.read >= sequence.size and sequence in self.waiting:
                    self.waiting.remove(sequence)
                    self.running.append(sequence)
                    self._keep(sequence)
                    self._token(sequence)

    def _token(self, sequence: Sequence) -> None:
        if sequence not in self.running:
            return
        sequence.answered += 1
        self.counts["generation"] += 1
        sequence.tokens.put_nowait(sequence.answered)
        if sequence.answered >= sequence.wanted:
            self.running.remove(sequence)
            self.counts["success"] += 1
            sequence.tokens.put_nowait(None)

    def _look_up(self, sequence: Sequence) -> None:
        """As vLLM: the longest beginning of whole blocks, never the last token."""
        found = 0
        for block in _blocks(sequence.prompt):
            if block not in self.cache or (found + 1) * BLOCK >= sequence.size:
                break
            found += 1
        sequence.read = sequence.cached = found * BLOCK
        self.counts["queries"] += sequence.size
        self.counts["prompt"] += sequence.size
        self.counts["hits"] += sequence.cached

    def _keep(self, sequence: Sequence) -> None:
        for block in _blocks(sequence.prompt):
            self.cache[block] = None
            self.cache.move_to_end(block)
        while len(self.cache) > BLOCKS:
            self.cache.popitem(last=False)

    def metrics(self) -> str:
        """In the words of vLLM's /metrics."""
        label = '{engine="0",model_name="double"}'
        values = {
            "request_success_total": self.counts["success"],
            "prefix_cache_queries_total": self.counts["queries"],
            "prefix_cache_hits_total": self.counts["hits"],
            "prompt_tokens_total": self.counts["prompt"],
            "generation_tokens_total": self.counts["generation"],
            "num_requests_running": len(self.running),
            "num_requests_waiting": len(self.waiting),
        }
        return "".join(f"vllm:{name}{label} {value}\n" for name, value in values.items())


def _blocks(prompt: str) -> list[int]:
    size, blocks, so_far = BLOCK * CHARACTERS, list[int](), 0
    for start in range(0, len(prompt) - size + 1, size):
        so_far = hash((so_far, prompt[start : start + size]))
        blocks.append(so_far)
    return blocks
