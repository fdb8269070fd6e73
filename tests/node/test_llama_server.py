"""What the plan says of llama.cpp, held against the real llama-server; through the real LiteLLM where that is here."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.client.count import count
from bench.client.shapes import Message
from operations.node.engine import probe
from operations.node.look import bench_facts
from operations.plan.engines import counters
from operations.plan.services.panels import panels
from tests.bench.routing import doors
from tests.lab import gguf
from tests.node.confined import contained, place
from tests.node.llama_server import PROGRAM, RECIPE, RUNS, Server, running
from tests.node.shipped import part

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason=f"no llama-server here: `make llama-server` unpacks Debian's into {PROGRAM.parent}"
)
CHAT = "/v1/chat/completions"
canary = part("canary", "engine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model in one file, and another in three parts."""
    place = tmp_path_factory.mktemp("gguf")
    gguf.write(place)
    gguf.write(place / "parts", 3)
    return place


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with running(folder, ["tiny-llama-F32.gguf"]) as server:
        yield server


def ask(url: str, path: str, body: dict[str, Any], key: str = "") -> dict[str, Any]:
    return probe.ask(f"{url}{path}", {"model": RECIPE.served_name, **body}, key, 120)


def chat(text: str, tokens: int, *more: dict[str, str]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}, *more], "max_tokens": tokens, "temperature": 0}


def said(url: str) -> str:
    with urllib.request.urlopen(f"{url}{RUNS.SIGNS.path}", timeout=60) as answer:
        return str(answer.read().decode())


def test_it_says_that_it_loads_and_then_what_it_serves(server: Server) -> None:
    assert set(server.statuses) <= {0, 503, 200} and 503 in server.statuses
    assert probe.main("tandem-engine", server.url, RECIPE.served_name, deadline_s=60)["ok"]


def test_its_signs_move_while_it_reads_a_prompt_and_when_it_is_idle_they_do_not(server: Server) -> None:
    signs = canary.Signs(f"{server.url}{RUNS.SIGNS.path}", RUNS.SIGNS.pattern)
    signs.moved(60)
    assert signs.known and not signs.moved(60) and not signs.moved(60)
    # Three batches: none of its counters of tokens says anything before the last.
    asking = threading.Thread(target=ask, args=(server.url, CHAT, chat("a b " * 650, 1)))
    before = re.findall(r"n_decode_total (\d+)", said(server.url))
    asking.start()
    seen = set()
    while asking.is_alive():
        seen.add(tuple(re.findall(RUNS.SIGNS.pattern, said(server.url), re.MULTILINE)))
        time.sleep(0.05)
    assert len(seen) >= 2 and re.findall(r"n_decode_total (\d+)", said(server.url)) != before


def test_a_bench_reads_its_counters_and_the_page_its_metrics(server: Server) -> None:
    before = bench_facts.parse(said(server.url), counters())
    answer = ask(server.url, CHAT, chat("How many are there?", 5))
    after = bench_facts.parse(said(server.url), counters())
    assert before and after and after.keys() == {"prompt_tokens", "answer_tokens", "prefix_found"}
    assert after["answer_tokens"] - before["answer_tokens"] == 5
    read = sum(after[name] - before[name] for name in ("prompt_tokens", "prefix_found"))
    assert read == answer["usage"]["prompt_tokens"]
    drawn = [panel["metric"] for panel in panels("llama-cpp") if panel["metric"].startswith(RUNS.METRICS)]
    assert len(drawn) == 4 and all(re.search(rf"^{name} ", said(server.url), re.MULTILINE) for name in drawn)


def test_a_bench_counts_prompts_as_it_reads_them_and_leaves_none_in_its_cache(server: Server) -> None:
    texts = ["Nobody else asks this.", "a word " * 60, "<s> is text here, and so is é"]
    asked: list[list[Message]] = [[{"role": "user", "content": text}] for text in texts]
    told = asyncio.run(count(f"{server.url}/v1", "", RECIPE.served_name, asked))
    read = [ask(server.url, CHAT, chat(text, 1))["usage"] for text in texts]
    assert told["counts"] == [usage["prompt_tokens"] for usage in read]
    # The three begin alike, with what the template says before them.
    assert all(usage["prompt_tokens_details"]["cached_tokens"] < 10 for usage in read)


def test_a_request_has_its_slot_s_part_of_the_context(server: Server) -> None:
    """What lint, advice and the proxy's `/v1/models` take from the flags is what the server has."""
    slots = json.loads(urllib.request.urlopen(f"{server.url}/slots", timeout=60).read())
    told = RUNS.memory(RECIPE)
    assert [each["n_ctx"] for each in slots] == [told.context] * int(told.requests or 0) == [16384] * 4


def test_without_parallel_four_share_the_whole_context(folder: Path) -> None:
    flags = ["--ctx-size", "8192", "--threads", "1", "--poll", "0"]
    recipe = RECIPE.model_copy(update={"flags": tuple(each for each in RECIPE.flags if each.name == "ctx-size")})
    with running(folder, ["tiny-llama-F32.gguf"], flags) as server:
        slots = json.loads(urllib.request.urlopen(f"{server.url}/slots", timeout=60).read())
    told = RUNS.memory(recipe)
    assert [each["n_ctx"] for each in slots] == [8192] * int(told.requests or 0) and told.context == 65536


def test_a_model_in_parts_is_found_by_any_of_its_names(folder: Path) -> None:
    with running(folder / "parts", ["*[-._/]F32[-./]*gguf", "*mmproj*.gguf"]) as server:
        assert probe.main("tandem-engine", server.url, RECIPE.served_name, deadline_s=60)["ok"]


def test_a_file_that_is_not_there_ends_the_start_in_one_line(folder: Path) -> None:
    argv = ["sh", "files/engine/llama.sh", str(folder), "*Q8_0*gguf", "--", "false"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr == f"llama.sh: {folder} has no GGUF file that is named *Q8_0*gguf\n"


def test_a_projector_that_is_there_is_given(tmp_path: Path) -> None:
    for name in ("M-Q8_0.gguf", "M-Q8_0-mmproj.gguf", "mmproj-BF16.gguf", "mmproj-F16.gguf"):
        (tmp_path / name).touch()
    argv = ["sh", "files/engine/llama.sh", str(tmp_path), "*[-./]Q8_0[-./]*gguf", "*mmproj*.gguf", "--", "echo"]
    words = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert words == ["--mmproj", f"{tmp_path}/mmproj-F16.gguf", "--model", f"{tmp_path}/M-Q8_0.gguf"]


def test_other_protocols_are_its_own(server: Server) -> None:
    message = ask(server.url, "/v1/messages", chat("Hi", 3))
    assert message["type"] == "message" and message["usage"]["output_tokens"] == 3
    answer = ask(server.url, "/v1/responses", {"input": "Hi", "max_output_tokens": 3})
    assert answer["object"] == "response" and answer["usage"]["output_tokens"] == 3


def test_it_gives_vectors_where_it_is_told_so(folder: Path) -> None:
    question = RUNS.QUESTIONS["embedding"]
    with running(folder, ["tiny-llama-F32.gguf"], [*RECIPE.flag_argv, "--embeddings", "--pooling", "mean"]) as server:
        asked: Any = {"path": question.path, "body": question.body, "pattern": question.pattern}
        assert probe.main("tandem-engine", server.url, RECIPE.served_name, deadline_s=60, question=asked)["ok"]


def test_an_answer_that_another_began_goes_on(server: Server) -> None:
    """A stream has only what comes behind the beginning; an answer in one piece has the beginning too."""
    whole = ask(server.url, CHAT, chat("Say some digits", 12))["choices"][0]["message"]["content"]
    rest = {**chat("Say some digits", 7, {"role": "assistant", "content": whole[:5]}), **(RUNS.continues(RECIPE) or {})}
    assert stream(server.url, rest) == whole[5:]


def stream(url: str, body: dict[str, Any], key: str = "", at: int = 0, then: Any = None) -> str:
    """The text of a streamed chat; `then` is called once `at` pieces have come."""
    data = json.dumps({"model": RECIPE.served_name, "stream": True, **body}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    text, pieces = "", 0
    with urllib.request.urlopen(urllib.request.Request(f"{url}{CHAT}", data, headers), timeout=300) as answer:
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            assert "error" not in chunk, chunk
            more = "".join(each["delta"].get("content") or "" for each in chunk["choices"])
            text, pieces = text + more, pieces + bool(more)
            if then and pieces == at:
                then, _ = None, then()
    return text


@pytest.mark.skipif(not doors.LITELLM.exists(), reason="no LiteLLM here: `make venv-proxy` installs it")
def test_a_stream_that_breaks_goes_on_from_another_through_the_proxy(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with (
        running(folder, ["tiny-llama-F32.gguf"]) as one,
        running(folder, ["tiny-llama-F32.gguf"]) as other,
        place(tmp_path_factory.mktemp("litellm")) as home,
    ):
        name = RECIPE.served_name
        door = doors.litellm("balanced", [one.url, other.url], name, home, before=contained, recipe=RECIPE.name)
        try:
            # Long enough that the stream is still under way when its engine is killed.
            asked = chat("Count what there is to count", 3000)
            whole = ask(one.url, CHAT, asked)["choices"][0]["message"]["content"]
            assert ask(door.url, CHAT, chat("Hi", 3), door.key)["usage"]["completion_tokens"] == 3

            def kill() -> None:
                busy = [each for each in (one, other) if "requests_processing 1" in said(each.url)]
                assert len(busy) == 1
                busy[0].kill()

            text = stream(door.url, asked, door.key, at=20, then=kill)
            assert text == whole and {one.process.poll(), other.process.poll()} == {None, -9}
        finally:
            door.stop()
