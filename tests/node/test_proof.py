"""What proves an engine after its start: its log, its words; and Ollama, which goes before it."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from operations.node.engine import answer_quality, probe
from operations.node.model import facts
from operations.node.unit import journal
from operations.plan.engines import ENGINES
from operations.plan.recipes.formats import FOLDER, load_recipe
from tests.support.serving import Quiet, serving

ROOT = Path(__file__).parents[2]


@contextmanager
def answering(answers: dict[str, Any]) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """A server that answers paths with JSON, and what it was asked. It stands in for programs that need a GPU."""
    asked: list[tuple[str, Any]] = []

    class Handler(Quiet):
        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            asked.append((self.path, json.loads(self.rfile.read(size) or b"null")))
            found = answers.get(self.path)
            self.reply(json.dumps(found).encode(), 200 if found is not None else 404)

        def do_GET(self) -> None:
            self.do_POST()

    with serving(Handler) as url:
        yield url, asked


def problem(message: dict[str, Any], *, reasoning: bool | None = None, text: bool = True) -> str:
    """What is said of an answer."""
    with answering({"/v1/chat/completions": {"choices": [{"message": message}]}}) as (url, _):
        return str(answer_quality.main(url, "m", reasoning, text, 5)["problem"])


def test_a_sentence_is_fine() -> None:
    assert problem({"content": "Blue light is scattered most by the air."}) == ""
    assert problem({"content": None, "reasoning_content": "The user asks why"}, reasoning=True) == ""
    assert problem({"content": "", "reasoning": "The user asks why"}, reasoning=True) == ""


@pytest.mark.parametrize(
    ("message", "reasoning", "said"),
    [
        ({"content": "!!!!!!!!!!!!!!!!"}, None, "it says nothing but `!`"),
        ({"content": "! ! ! ! ! ! ! ! ! !"}, None, "it says nothing but `!`"),
        ({"content": "the the the the the the the the"}, None, "it says `the` and nothing else"),
        ({"reasoning_content": "!!!!!!!!!!!!!!!!", "content": ""}, True, "it says nothing but `!`"),
        ({"content": "<think>The user asks</think> It is"}, None, "the reasoning stands in the answer itself"),
        ({"content": "The user asks me to"}, True, "the answer has no reasoning of its own"),
    ],
)
def test_a_worthless_answer_is_named(message: dict[str, Any], reasoning: bool | None, said: str) -> None:
    assert said in problem(message, reasoning=reasoning)


def test_noise_is_not_judged_where_the_recipe_says_so() -> None:
    assert problem({"content": "the the the the the the the the"}, text=False) == ""


def test_a_server_that_fails_is_a_problem() -> None:
    with answering({}) as (url, _):
        assert "HTTP 404" in answer_quality.main(url, "m", None, True, 5)["problem"]
    assert "refused" in answer_quality.main(url, "m", None, True, 5)["problem"]


LOG_E = [
    "INFO 03-13 [NVFP4] Using backend: marlin",
    "INFO 03-13 [nvfp4.py:190] Using 'MARLIN' NvFp4 MoE backend out of potential backends: ['MARLIN'].",
]


@pytest.mark.parametrize(
    ("recipe", "line", "forbidden"),
    [
        ("nemotron-3-super-nvfp4-marlin", LOG_E[0], False),
        ("nemotron-3-super-nvfp4-marlin", "Using NvFp4LinearBackend.MARLIN for NVFP4 GEMM", False),
        ("nemotron-3-super-nvfp4-marlin", LOG_E[1], False),
        ("nemotron-3-super-nvfp4-marlin", "Auto-selected: CUTLASS_FP4", True),
        ("nemotron-3-super-nvfp4-cutlass", "Using NvFp4LinearBackend.VLLM_CUTLASS for NVFP4 GEMM", False),
        ("nemotron-3-super-nvfp4-cutlass", "Using NvFp4LinearBackend.MARLIN for NVFP4 GEMM", True),
        ("nemotron-3-super-nvfp4-cutlass", "This kernel only supports sm120.", True),
        ("nemotron-3-nano-nvfp4-w4a16", "Using FlashInferB12xNvFp4LinearKernel for NVFP4 GEMM", False),
        ("nemotron-3-nano-nvfp4-w4a16", "Using MarlinNvFp4LinearKernel for NVFP4 GEMM", True),
        ("nemotron-3-super-nvfp4-auto", "Using FlashInferCutlassNvFp4LinearKernel for NVFP4 GEMM", False),
        ("nemotron-3-super-nvfp4-auto", "Using MarlinNvFp4LinearKernel for NVFP4 GEMM", True),
        ("gpt-oss-120b-mxfp4", "Using 'MARLIN' Mxfp4 MoE backend.", False),
        ("gpt-oss-120b-mxfp4", "Using 'TRITON' Mxfp4 MoE backend.", True),
    ],
)
def test_the_lines_that_the_sources_print(recipe: str, line: str, forbidden: bool) -> None:
    proof = load_recipe(recipe).proof
    seen = journal.matches([line], [each.pattern for each in proof.forbid])
    assert bool(seen) == forbidden
    assert forbidden or journal.matches([line], proof.expect)


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("gpu_worker.py:448 Estimated CUDA graph memory: -35.63 GiB", True),
        ("Estimated CUDA graph memory: -0.5 GiB total", True),
        ("Estimated CUDA graph memory: 1.25 GiB", False),
    ],
)
def test_a_negative_estimate_ends_every_start(line: str, seen: bool) -> None:
    assert bool(journal.matches([line], [each.pattern for each in ENGINES["vllm"].FORBIDDEN])) == seen


def test_every_recipe_with_a_gpu_says_what_proves_it() -> None:
    for file in FOLDER.glob("*.yaml"):
        recipe = load_recipe(file.stem)
        assert not recipe.needs.gpu or recipe.proof.expect or recipe.proof.forbid or recipe.proof.reasoning


def ollama() -> Any:
    """The script that lies on the node."""
    spec = importlib.util.spec_from_file_location("ollama", ROOT / "files/engine/ollama.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_ollama_has_loaded_is_unloaded() -> None:
    answers = {"/api/ps": {"models": [{"name": "qwen3:8b"}, {"name": "x"}]}, "/api/generate": {"done": True}}
    with answering(answers) as (url, asked):
        assert ollama().main(url) == ["qwen3:8b", "x"]
    assert [body for path, body in asked if path == "/api/generate"] == [
        {"model": "qwen3:8b", "keep_alive": 0},
        {"model": "x", "keep_alive": 0},
    ]


def test_no_ollama_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert ollama().main("http://127.0.0.1:9") == []
    with answering({"/api/ps": {"models": [{"name": "x"}]}}) as (url, _):
        assert ollama().main(url) == ["x"]
    assert "Ollama does not unload x: HTTP Error 404" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("config", "has"),
    [
        ({"num_nextn_predict_layers": 1}, True),
        ({"num_nextn_predict_layers": 0}, False),
        ({"model_type": "x"}, False),
        ({"text_config": {"mtp_num_hidden_layers": 1}}, True),
        ({"num_nextn_predict_layers": None}, False),
    ],
)
def test_whether_a_checkpoint_has_a_draft_layer(tmp_path: Path, config: dict[str, Any], has: bool) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert facts.has_mtp(tmp_path) is has


def test_a_model_that_is_not_here_says_nothing(tmp_path: Path) -> None:
    assert facts.has_mtp(tmp_path) is None


@pytest.mark.parametrize(
    ("config", "heads", "layers"),
    [
        ({"num_attention_heads": 32, "num_hidden_layers": 48}, 32, 48),
        # A tower for pictures has heads of its own.
        (
            {
                "vision_config": {"num_attention_heads": 16},
                "text_config": {"num_attention_heads": 24, "num_hidden_layers": 2},
            },
            *(24, 2),
        ),
        ({"num_attention_heads": 8, "text_config": {"num_hidden_layers": 4}}, 8, 4),
        ({"num_attention_heads": [8, 16]}, 0, 0),
        ({"model_type": "x"}, 0, 0),
    ],
)
def test_what_ranks_are_cut_by(tmp_path: Path, config: dict[str, Any], heads: int, layers: int) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["XForCausalLM"]}))
    said = facts.layout([tmp_path / "not-here", tmp_path])
    assert said == {"heads": heads, "layers": layers, "architectures": ["XForCausalLM"]}


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_what_is_no_configuration_says_nothing_of_ranks(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert facts.layout([tmp_path, tmp_path / "not-here"]) == {}
    assert facts.has_mtp(tmp_path) is None


def test_main_is_the_cache_s_then_the_hub_s(tmp_path: Path) -> None:
    with answering({"/api/models/org/m/revision/main": {"sha": "b" * 40}}) as (url, _):
        assert facts.main_commit(tmp_path, "models--org--m", url, "org/m", "") == "b" * 40
        (tmp_path / "models--org--m/refs").mkdir(parents=True)
        (tmp_path / "models--org--m/refs/main").write_text("c" * 40)
        assert facts.main_commit(tmp_path, "models--org--m", url, "org/m", "") == "c" * 40
    assert facts.main_commit(tmp_path, "models--org--n", "http://127.0.0.1:9", "org/n", "") == ""


@pytest.mark.parametrize(("status", "listens"), [(503, False), (500, True)])
def test_an_engine_that_says_503_to_a_question_does_not_stand_in(status: int, listens: bool) -> None:
    """A llama-server of 2025 names its model while it loads, and answers 503 to all else. It is doubled here."""

    class Loading(Quiet):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"data": [{"id": "m", "meta": null}]}')

        def do_POST(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b'{"error": {"code": 503, "message": "Loading model"}}')

    with serving(Loading) as url:
        said = probe.main("tandem-engine", url, "m", deadline_s=5)
    assert not said["ok"] and said["listens"] == listens
