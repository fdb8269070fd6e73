"""vLLM's double is asked as vLLM is: by the OpenAI package, with one rank and with two."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
import requests

from tests.lab import images
from tests.support import rdma_double
from tests.support.ports import free_port, listens
from tests.support.waiting import until, until_it_listens

PROGRAM = images.VLLM_DOUBLE.context / "vllm_double.py"
#: The clients of the fault matrix ask for so many.
TOKENS = 48
DEVICES = ["rocep1s0f0", "roceP2p1s0f0"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Weights in two files."""
    for number in (1, 2):
        (tmp_path / f"model-0000{number}-of-00002.safetensors").write_bytes(b"w" * number)
    return tmp_path


@contextmanager
def running(
    model: Path, ranks: int = 1, are_to_meet: bool = True, env: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """URL of the first rank, and all of them, the last one first. `env`: what NCCL of the others is told."""
    port, meeting = free_port(), free_port()
    program = model / "vllm_double.py"
    text = rdma_double.reading(model, PROGRAM.read_text())
    program.write_text(text.replace("/tandem/meeting.json", str(model / "meeting.json")))
    (model / "meeting.json").write_text(json.dumps({"rdma": [{"device": each} for each in DEVICES]}))
    argv = [sys.executable, str(program), "serve", str(model), "--served-model-name", "tiny", "--host", "127.0.0.1"]
    argv += ["--port", str(port), "--dtype", "float32", "--nnodes", str(ranks), "--master-port", str(meeting)]
    started = [
        subprocess.Popen(
            [*argv, "--node-rank", str(rank), *(["--headless"] if rank else [])],
            env=os.environ | ({} if rank == 0 else dict(env or {})),
        )
        for rank in reversed(range(ranks))
    ]
    try:
        if are_to_meet:
            until_it_listens(port)
        yield f"http://127.0.0.1:{port}", started
    finally:
        for each in started:
            each.kill()
            each.wait()


def ask(url: str, question: str, **more: object) -> str:
    """A streamed answer."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=20)
    messages = [{"role": "user", "content": question}, *([more.pop("begun")] if "begun" in more else [])]
    stream = client.chat.completions.create(  # type: ignore[call-overload]
        model="tiny", messages=messages, stream=True, stream_options={"include_usage": True}, **more
    )
    chunks = list(stream)
    assert chunks[-1].usage.completion_tokens == more["max_tokens"] and chunks[-2].choices[0].finish_reason == "length"
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def test_the_same_question_has_the_same_digits_by_one_rank_and_by_two(model: Path) -> None:
    with running(model) as (url, _):
        alone = ask(url, "Hello", max_tokens=TOKENS)
        assert alone.isdigit() and len(alone) == TOKENS
        assert ask(url, "Hi", max_tokens=TOKENS) != alone
        begun = {"role": "assistant", "content": alone[:20]}
        more = {"continue_final_message": True, "add_generation_prompt": False}
        assert ask(url, "Hello", max_tokens=TOKENS - 20, begun=begun, extra_body=more) == alone[20:]
        counted = requests.get(f"{url}/metrics", timeout=5).text
        assert 'vllm:generation_tokens_total{engine="0",model_name="tiny"} 124.0' in counted
        assert 'vllm:num_requests_running{engine="0",model_name="tiny"} 0.0' in counted
        body = {"model": "tiny", "prompt": "Hello", "max_tokens": "many"}
        assert requests.post(f"{url}/v1/completions", json=body, timeout=5).status_code == 400
    with running(model, ranks=2) as (url, _):
        assert ask(url, "Hello", max_tokens=TOKENS) == alone
    (model / "model-00001-of-00002.safetensors").write_bytes(b"others")
    with running(model) as (url, _):
        assert ask(url, "Hello", max_tokens=TOKENS) != alone


def test_without_a_rank_no_token_comes_and_its_health_is_good(model: Path) -> None:
    with running(model, ranks=2) as (url, ranks):
        ask(url, "Hello", max_tokens=1)
        ranks[0].kill()
        ranks[0].wait()
        body = {"model": "tiny", "prompt": "Hello", "max_tokens": 1}
        with pytest.raises(requests.ReadTimeout):
            requests.post(f"{url}/v1/completions", json=body, timeout=2)
        assert requests.get(f"{url}/health", timeout=5).status_code == 200


@pytest.mark.parametrize(
    ("told", "do_meet"),
    [
        ({}, True),
        ({"NCCL_IB_HCA": "=rocep1s0f0,roceP2p1s0f0"}, True),
        ({"NCCL_IB_HCA": "=rocep1s0f0"}, False),
        ({"NCCL_IB_DISABLE": "1"}, False),
        ({"NCCL_NET": "Socket"}, False),
    ],
)
def test_ranks_that_find_unlike_rdma_devices_never_meet(
    model: Path, told: dict[str, str], do_meet: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    for number, device in enumerate(DEVICES):
        rdma_double.add(model, device, number)
    if do_meet:
        with running(model, ranks=2, env=told) as (url, _):
            assert ask(url, "Hello", max_tokens=1).isdigit()
    else:
        said: list[str] = []
        with running(model, ranks=2, env=told, are_to_meet=False) as (url, _):

            def waits() -> bool:
                said.append(capfd.readouterr().err)
                return "this one 2: it waits" in "".join(said)

            until(waits, 30)
            assert not listens(int(url.rpartition(":")[2]))


@pytest.mark.parametrize("lacks", [None, {"state": "1: DOWN"}, {"can_be_opened": False}])
def test_a_device_that_is_not_there_or_down_or_can_t_be_opened_is_not_found(
    model: Path, lacks: dict[str, Any] | None, capfd: pytest.CaptureFixture[str]
) -> None:
    rdma_double.add(model, DEVICES[0], 0)
    if lacks:
        rdma_double.add(model, DEVICES[1], 1, **lacks)
    with running(model, ranks=2, env={"NCCL_IB_HCA": f"={DEVICES[0]}"}) as (url, _):
        assert ask(url, "Hello", max_tokens=1).isdigit()
    assert capfd.readouterr().err.count(f"NET/IB : Using [0]{DEVICES[0]}:1/RoCE\n") == 2
