"""The routing bench's own parts: its figures, its double of an engine, and what it refuses."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import ExitStack

import pytest

from bench.client.stream import Answer
from tests.bench.routing import doors
from tests.bench.routing.__main__ import double, up
from tests.bench.routing.counters import Counts, counts
from tests.bench.routing.double import BLOCK, Double
from tests.bench.routing.load import stream
from tests.bench.routing.table import markdown, step


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"DOORS": "dice"}, "DOORS: 'dice' is not to be had here; there are simple-shuffle"),
        ({"URL": "http://127.0.0.1:9"}, "URL: name the engines behind it as well"),
        ({"PROMPT": "many"}, "PROMPT='many': a number of tokens is expected"),
        ({"ANSWERS": "256-32"}, "ANSWERS='256-32': the least and the most tokens are expected, as 32-256"),
        ({"LITELLM": "/nowhere"}, "there is no LiteLLM at /nowhere: `make venv-proxy` installs it"),
    ],
)
def test_what_can_t_be_measured_is_one_line(environment: dict[str, str], said: str) -> None:
    argv = [sys.executable, "-m", "tests.bench.routing"]
    done = subprocess.run(argv, env={**os.environ, **environment}, cwd=doors.ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said) and done.stderr.count("\n") == 1


def test_the_share_is_what_the_busiest_has_over_its_part() -> None:
    answers = [Answer(sent=1.0, pieces=[1.5]), Answer(sent=1.0, pieces=[3.0]), Answer(sent=0, error="gone")]
    counted = [Counts(30, 100, 1000, 500, 0), Counts(10, 300, 1000, 100, 0)]
    found = step("balanced", "single requests", 8, 0, answers, counted, took=10.0, speed=2.0)
    assert (found.share, found.tokens, found.hits, found.lost, found.sent) == (1.5, 1.5, 0.3, 1, 3)
    assert (found.ttft_p50, found.took) == (2.5, 20.0) and found.ttft_p99 == pytest.approx(3.97)
    assert "| 8 | balanced | 1.50 | 1.50 | - | 2.50 | 3.97 | 30% | 20 | 1 of 3 |" in markdown([found])


def test_the_double_decodes_slower_with_company_and_has_what_it_read() -> None:
    speed = 50.0

    async def work() -> None:
        engine = Double(speed)
        working = asyncio.create_task(engine.run())

        async def whole(prompt: str) -> int:
            sequence = engine.begin(prompt, 3)
            while await sequence.tokens.get() is not None:
                pass
            return sequence.cached

        prompt = "abcd" * 100
        assert await whole(prompt) == 0
        assert await whole(prompt + "more") == 100 // BLOCK * BLOCK
        assert await whole("x" + prompt) == 0
        assert (engine.counts["success"], engine.counts["generation"], engine.counts["hits"]) == (3, 9, 96)
        working.cancel()

    asyncio.run(work())


def test_the_double_is_asked_as_vllm_is() -> None:
    with ExitStack() as stack:
        url = double(stack, speed=50, piece=1)
        assert asyncio.run(up(url)) == "double"
        body = {"model": "double", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4, "stream": True}
        assert asyncio.run(stream(f"{url}/v1", body, "")).text == "0 1 2 3 "
        body["messages"] += [{"role": "assistant", "content": "0 1 "}]  # type: ignore[operator]
        body |= {"continue_final_message": True}
        assert asyncio.run(stream(f"{url}/v1", body, "")).text == "2 3 4 5 "
        assert asyncio.run(counts(url)).requests == 2
