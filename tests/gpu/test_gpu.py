"""What is started on a machine with GPUs, as far as one without can tell."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest
import yaml

from bench.client.shapes import Message
from operations.plan.config.refusal import Refusal
from operations.plan.recipes.formats import load_recipe
from tests.gpu import engines, models, pairs, proofs, proxies
from tests.gpu.engines import BOTH, FIRST, SECOND
from tests.gpu.started import Program, last_words, started
from tests.support.ports import free_port


def program(folder: Path, name: str, *argv: str, port: int = 0) -> Program:
    port = port or free_port()
    words = [word.replace("PORT", str(port)) for word in argv]
    return Program(name, (sys.executable, *words), {}, f"http://127.0.0.1:{port}/", folder)


def test_one_engine_over_both_gpus_has_tandems_words_and_two_ranks(tmp_path: Path) -> None:
    made = engines.program(["vllm"], engines.recipe("dense-14b"), BOTH, Path("/m"), tmp_path)
    text = " ".join(made.argv)
    assert text.startswith("vllm serve /m --served-model-name dense-14b --host 127.0.0.1 --port 18103")
    assert "--tensor-parallel-size 2 --load-format dummy" in text
    assert made.environment["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert "PYTORCH_CUDA_ALLOC_CONF" not in made.environment


@pytest.mark.parametrize(("routing", "balances"), [("simple-shuffle", False), ("balanced", True)])
def test_the_proxy_is_the_one_that_a_deploy_renders(tmp_path: Path, routing: proxies.Routing, balances: bool) -> None:
    recipe = engines.recipe("moe-30b-nvfp4")
    made = proxies.program(["python3"], recipe, "proxy", 18299, routing, [FIRST, SECOND], tmp_path)
    config = yaml.safe_load((tmp_path / "proxy/config.yaml").read_text())
    assert [each["litellm_params"]["api_base"] for each in config["model_list"]] == [
        "http://127.0.0.1:18101/v1",
        "http://127.0.0.1:18102/v1",
    ]
    assert ("application.balanced" in config["litellm_settings"]["callbacks"]) is balances
    assert made.environment["AIOHTTP_KEEPALIVE_TIMEOUT"] == "2"


def test_what_does_not_come_up_says_why_and_stops_no_other(tmp_path: Path) -> None:
    well = program(tmp_path, "well", "-m", "http.server", "PORT", "--bind", "127.0.0.1")
    broken = program(tmp_path, "broken", "-c", "raise ValueError('no such GPU')")
    with started([well, broken], 60) as up:
        assert set(up.after) == {"well"}
        assert up.why_not == {"broken": "ValueError: no such GPU"}
    with socket.socket() as again:
        # Ended, and its port is free.
        assert again.connect_ex(("127.0.0.1", int(well.asks.split(":")[2].strip("/")))) != 0


def test_the_cause_is_told_and_not_what_follows_from_it(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(
        "ValueError: NvFp4 MoE backend 'VLLM_CUTLASS' does not support the deployment\n"
        "    raise RuntimeError(\n"
        "RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    assert last_words(log) == "ValueError: NvFp4 MoE backend 'VLLM_CUTLASS' does not support the deployment"


def test_a_program_that_answers_already_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    first = program(tmp_path, "first", "-m", "http.server", "PORT", "--bind", "127.0.0.1")
    port = int(first.asks.split(":")[2].strip("/"))
    second = program(tmp_path, "second", "-c", "pass", port=port)
    with started([first], 60):
        with pytest.raises(Refusal, match="answers already"):
            with started([second], 60):
                pass


def test_a_model_is_a_configuration_whose_every_token_has_a_text(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    models.make("short-moe-nvfp4", tmp_path / "short")
    config = json.loads((tmp_path / "short/config.json").read_text())
    tokenizer = Tokenizer.from_file(str(tmp_path / "short/tokenizer.json"))
    assert config["num_hidden_layers"] == 2 and config["quantization_config"]["quant_algo"] == "NVFP4"
    assert config["vocab_size"] == tokenizer.get_vocab_size()
    # What an engine says that computes nonsense.
    assert tokenizer.decode([0]).strip()
    messages: list[Message] = [{"role": "user", "content": "time"}]
    assert models.counter(tmp_path / "short")([messages]) == [len(tokenizer.encode("time").ids) + 3]


def test_a_recipes_patterns_are_held_against_a_log_line_by_line() -> None:
    log = (
        "(APIServer pid=1) INFO 11-23 07:31:08 [x.py:1] routes\n"
        "(EngineCore pid=4) INFO 11-23 07:31:52 [__init__.py:937] Using MarlinNvFp4LinearKernel for NVFP4 GEMM\n"
    )
    expected, forbidden = proofs.judge(load_recipe("nemotron-3-super-nvfp4-auto"), log)
    assert (expected.kind, forbidden.kind) == ("expect", "forbid")
    assert expected.line == forbidden.line == "[__init__.py:937] Using MarlinNvFp4LinearKernel for NVFP4 GEMM"
    assert proofs.judge(load_recipe("qwen3.8-flash-next-nvfp4"), log)[0].line == ""


def test_pairs_of_steps_say_how_often_chance_would_do_the_same(tmp_path: Path) -> None:
    requests = [
        {
            "conversation": 0,
            "sent_s": 0,
            "first_s": first,
            "done_s": 2,
            "answer_tokens": 10,
            "step": f"{setup}/proxy/2/0",
        }
        for setup, first in (("a", 1.0), ("b", 0.5))
    ]
    steps = [
        {"name": f"{setup}/proxy/2/0", "setup": setup, "target": "proxy", "users": 2, "repeat": 0, "prompt_tokens": 1}
        | {"answer_tokens": 10, "began": 0, "took_s": 2, "requests": 1}
        for setup in ("a", "b")
    ]
    run = {"profile": "standard", "seed": 1, "repeats": 1, "users": [2], "recipe": "r", "served_name": "r", "began": 0}
    (tmp_path / "run.json").write_text(json.dumps({"format": 1, **run, "model": "m", "revision": ""}))
    for name, lines in (("requests", requests), ("steps", steps)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    rows = pairs.table(tmp_path, "a", "b").splitlines()
    assert "| first token, mean | 2.00 | **2.000** | 1 of 1 | 100.0% |" in rows
    assert pairs.chance(11, 12) == pairs.chance(1, 12) == pytest.approx(2 * 13 / 2**12)
