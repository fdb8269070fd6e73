"""The vocabulary of a vLLM from its sources, on a tree that has each way in which vLLM writes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from operations.plan.lint.subject import FOLDER

SCRIPT = Path(__file__).parents[2] / "files/engine/vocabulary.py"
TREE = {
    "envs.py": "environment_variables: dict[str, object] = {\n"
    '    "VLLM_A": lambda: 1,\n    "VLLM_B": env_with_choices("VLLM_B", None, ["x", "y"]),\n}\n',
    "config/kernel.py": 'Backend = Literal["auto", "fast"]\n\nclass KernelConfig:\n    backend: Backend = "auto"\n',
    "engine/arg_utils.py": (
        "class EngineArgs:\n    backend: Backend = KernelConfig.backend\n    dtype: Dtype | str = 'auto'\n"
        "    size: Literal[1, 2] | None = None\n    mode: 'Backend | None' = None\n\n"
        "def add(group, kwargs):\n    group.add_argument('--backend', '-b', **kwargs['backend'])\n"
        "    group.add_argument('--dtype', **kwargs['dtype'])\n    group.add_argument('--size', **kwargs['size'])\n"
        "    group.add_argument('--mode', **kwargs['mode'])\n"
    ),
    "entrypoints/openai/cli_args.py": 'class FrontendArgs:\n    log_level: Literal["info", "debug"] = "info"\n',
    "reasoning/__init__.py": '_REASONING_PARSERS_TO_REGISTER = {"r1": ("f", "C")}\n',
    "reasoning/other.py": '@ReasoningParserManager.register_module("r2")\nclass R: ...\n',
    "tool_parsers/__init__.py": '_TOOL_PARSERS_TO_REGISTER = {"t1": ("f", "C")}\n',
    "model_executor/kernels/linear.py": "class FastFP8Kernel:\n    pass\nclass Other:\n    pass\n",
    "v1/attention/backends/registry.py": "class AttentionBackendEnum(Enum):\n    FLASH_ATTN = 'a'\n",
}


def told(site: Path) -> dict[str, Any]:
    done = subprocess.run([sys.executable, SCRIPT, site], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def tree(site: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (site / "vllm" / name).parent.mkdir(parents=True, exist_ok=True)
        (site / "vllm" / name).write_text(text)
    (site / "vllm-1.2.3+cpu.dist-info").mkdir()
    return site


def test_what_the_sources_say(tmp_path: Path) -> None:
    found = told(tree(tmp_path, TREE))
    assert found["version"] == "1.2.3"
    assert found["environment"] == {"VLLM_A": None, "VLLM_B": ["x", "y"]}
    choices = {name: flag["choices"] for name, flag in found["flags"].items()}
    assert choices == {
        "attention-backend": ["FLASH_ATTN"],
        "backend": ["auto", "fast"],
        "dtype": None,
        "log-level": ["info", "debug"],
        "mode": ["auto", "fast"],
        "size": ["1", "2"],
    }
    assert found["flags"]["backend"]["short"] == ["b"]
    assert found["reasoning_parsers"] == ["r1", "r2"] and found["tool_parsers"] == ["t1"]
    assert found["kernels"] == ["FastFP8Kernel"] and found["ray"] is False


def test_what_a_fork_lays_out_differently_is_not_judged(tmp_path: Path) -> None:
    found = told(tree(tmp_path, {"envs.py": "x = 1\n", "engine/arg_utils.py": "def broken(:\n"}))
    assert found["environment"] is None and found["flags"] is None and found["kernels"] is None
    assert found["reasoning_parsers"] is None


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_shipped_vocabulary_is_whole(file: Path) -> None:
    found = json.loads(file.read_text())
    assert found["version"] == file.stem.removeprefix("vllm-")
    assert len(found["environment"]) > 200 and len(found["flags"]) > 200 and len(found["kernels"]) > 20
    assert "nemotron_v3" in found["reasoning_parsers"] and "qwen3_coder" in found["tool_parsers"]
