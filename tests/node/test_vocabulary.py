"""The vocabulary of a vLLM from its sources, on a tree that has each way in which vLLM writes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from operations.node.image import vocabulary
from operations.plan.recipes.lint.subject import FOLDER
from operations.runner import recipe_lint

SCRIPT = Path(__file__).parents[2] / "files/engine/vocabulary.py"
DOUBLES = Path(__file__).parent / "doubles"
CONFIG = """
Backend = Literal["auto", "fast"]
Kind: TypeAlias = Literal["a", "b"]
Wide = Literal["c", Kind]

@config
class Nested:
    depth: int = 1

@config
class Base:
    share: float = Field(default=0.9, gt=0, le=1)

@config
class KernelConfig(Base):
    backend: Backend = "auto"
    loose: Backend = "auto"
    dtype: Backend | str = "auto"
    size: Literal[1, 2] | None = None
    mode: "Optional[Wide]" = None
    eager: bool = False
    token: bool | str | None = None
    max_model_len: int = Field(default=None, ge=-1)
    batched: int = 1
    seqs: int | None = None
    sizes: list[int] | None = None
    pair: tuple[int, int] = (1, 1)
    kinds: list[Kind] | None = None
    mixed: list[int | str] = ()
    nested: Nested = None
    table: dict[str, int] | None = None
    either: dict[str, int] | str = None
    path: SkipValidation[str] = ""
    parser: str = ""
    raw: Nested | None = None
    more: list[Kind] = ()
"""
ARGUMENTS = """
def _compute_kwargs(cls):
    if type_hints == {bool, str, type(None)}:
        pass
    if name == "max_model_len":
        pass
    elif name in ("batched",):
        pass

def add(group, parser):
    kernel = get_kwargs(KernelConfig)
    group.add_argument('--backend', '-b', **kernel['backend'])
    loose_kwargs = kernel['loose']
    loose_kwargs['type'] = lambda s: s.lower().replace("-", "_")
    group.add_argument('--loose', **loose_kwargs)
    kernel['parser']['type'] = parse_own
    kernel['raw']['type'] = optional_type(json.loads)
    kernel['more']['choices'] += ['x']
    for_dtype = get_kwargs(KernelConfig)['dtype']
    group.add_argument('--dtype', **for_dtype)
    group.add_argument('--seqs', **{**kernel['seqs'], 'default': None})
    group.add_argument('--port', type=int)
    group.add_argument('--headless', action='store_true')
    group.add_argument('--lora', action=argparse.BooleanOptionalAction)
    group.add_argument('--level', choices=['info', 'debug'])
    group.add_argument('--maybe', nargs='?')
    group.add_argument('--own', type=lambda s: s.split(','))
""" + "".join(
    f"    group.add_argument('--{name.replace('_', '-')}', **kernel['{name}'])\n"
    for name in (
        *("share", "size", "mode", "eager", "token", "max_model_len", "batched", "sizes", "pair", "kinds", "mixed"),
        *("nested", "table", "either", "path", "parser", "raw", "more"),
    )
)
TREE = {
    "envs.py": "environment_variables: dict[str, object] = {\n"
    '    "VLLM_A": lambda: 1,\n    "VLLM_B": env_with_choices("VLLM_B", None, ["x", "y"]),\n'
    '    "VLLM_C": lambda: bool(int(os.getenv("VLLM_C", "0"))),\n'
    '    "VLLM_D": lambda: int(os.getenv("VLLM_OTHER", "0")),\n}\n',
    "config/kernel.py": CONFIG,
    "config/attention.py": 'if value.lower() == "auto":\n    pass\n',
    "engine/arg_utils.py": ARGUMENTS,
    "entrypoints/openai/cli_args.py": """
class FrontendArgs:
    log_level: Literal["info", "debug"] = "info"
    origins: list[str] = ()

    def customize(frontend_kwargs):
        frontend_kwargs["origins"]["type"] = json.loads
        del frontend_kwargs["origins"]["nargs"]
""",
    "reasoning/__init__.py": '_REASONING_PARSERS_TO_REGISTER = {"r1": ("f", "C")}\n',
    "reasoning/other.py": '@ReasoningParserManager.register_module("r2")\nclass R: ...\n',
    "tool_parsers/__init__.py": '_TOOL_PARSERS_TO_REGISTER = {"t1": ("f", "C")}\n',
    "model_executor/kernels/linear.py": "class FastFP8Kernel:\n    pass\nclass Other:\n    pass\n",
    "v1/attention/backends/registry.py": "class AttentionBackendEnum(Enum):\n    FLASH_ATTN = 'a'\n",
}


def told(site: Path) -> Any:
    done = subprocess.run([sys.executable, SCRIPT, site], capture_output=True, text=True, check=True)
    found: Any = json.loads(done.stdout)
    return found


def tree(site: Path, files: dict[str, str]) -> Path:
    for name, text in ({"__init__.py": ""} | files).items():
        (site / "vllm" / name).parent.mkdir(parents=True, exist_ok=True)
        (site / "vllm" / name).write_text(text)
    (site / "vllm-1.2.3+cpu.dist-info").mkdir()
    (site / "vllm-1.2.3+cpu.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 1.2.3+cpu\n")
    return site


def test_what_the_sources_say(tmp_path: Path) -> None:
    found = told(tree(tmp_path, TREE))
    assert found["version"] == "1.2.3" and found["format"] == vocabulary.FORMAT
    assert found["environment"] == {"VLLM_A": None, "VLLM_B": ["x", "y"], "VLLM_C": "int", "VLLM_D": None}
    assert found["reasoning_parsers"] == ["r1", "r2"] and found["tool_parsers"] == ["t1"]
    assert found["kernels"] == ["FastFP8Kernel"] and found["ray"] is False


def test_what_a_flag_takes_follows_from_its_annotation_as_in_vllm_s_own_parser(tmp_path: Path) -> None:
    two = ["auto", "fast"]
    assert told(tree(tmp_path, TREE))["flags"] == {
        "attention-backend": {"takes": "word", "choices": ["auto", "FLASH_ATTN"], "loose": True},
        "backend": {"takes": "word", "choices": two, "short": ["b"]},
        "batched": {"takes": "size"},
        "dtype": {"takes": "text"},
        "eager": {"takes": "switch"},
        "either": {"takes": "object or text"},
        "headless": {"takes": "bare"},
        "kinds": {"takes": "word", "choices": ["a", "b"], "many": "+", "none": True},
        "level": {"takes": "text", "choices": ["info", "debug"]},
        "log-level": {"takes": "word", "choices": ["info", "debug"]},
        "loose": {"takes": "word", "choices": two, "loose": True},
        "lora": {"takes": "switch"},
        "max-model-len": {"takes": "size or auto", "bounds": {"ge": -1}},
        "maybe": {"takes": "maybe"},
        "mixed": {"takes": "text", "many": "+"},
        "mode": {"takes": "word", "choices": ["c", "a", "b"], "none": True},
        "more": {"takes": "word", "many": "+"},
        "nested": {"takes": "object"},
        "origins": {"takes": "json"},
        "own": {},
        "pair": {"takes": "int", "many": "2"},
        "parser": {},
        "path": {"takes": "text"},
        "port": {"takes": "int"},
        "raw": {"takes": "json", "none": True},
        "seqs": {"takes": "int", "none": True},
        "share": {"takes": "float", "bounds": {"gt": 0, "le": 1}},
        "size": {"takes": "int", "choices": ["1", "2"], "none": True},
        "sizes": {"takes": "int", "many": "+", "none": True},
        "table": {"takes": "object", "none": True},
        "token": {"takes": "maybe"},
    }


def test_a_parser_that_pairs_enable_with_disable_has_both(tmp_path: Path) -> None:
    paired = {"utils/argparse_utils.py": "class EnableDisableAction(BooleanOptionalAction): ...\n"}
    lines = "    group.add_argument('--enable-x', action=argparse.BooleanOptionalAction)\n"
    found = told(tree(tmp_path, TREE | paired | {"engine/arg_utils.py": ARGUMENTS + lines}))["flags"]
    assert found["enable-x"] == {"takes": "switch"} and found["disable-x"] == {"takes": "bare"}


def test_what_a_fork_lays_out_differently_is_not_judged(tmp_path: Path) -> None:
    found = told(tree(tmp_path, {"envs.py": "x = 1\n", "engine/arg_utils.py": "def broken(:\n"}))
    assert found["environment"] is None and found["flags"] is None and found["kernels"] is None
    assert found["reasoning_parsers"] is None


def test_an_image_is_asked_once_by_the_first_name_under_which_it_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{Path(sys.executable).parent}:/usr/bin:/bin")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/docker").symlink_to(DOUBLES / "docker_double")
    monkeypatch.setenv("DOUBLE_IMAGE", str(tree(tmp_path / "image", TREE)))
    monkeypatch.setattr(vocabulary, "KEPT", tmp_path / "kept")
    names = ["tandem/engine:2", "tandem/engine:1"]
    found: Any = vocabulary.main(names, recipe_lint.script("vllm"))
    assert found["version"] == "1.2.3" and found["flags"]["port"] == {"takes": "int"}
    assert found["asked"] == "tandem/engine:1"
    assert vocabulary.main(names, "raise SystemExit('asked again')") == found
    assert vocabulary.kept("sha256:1")["version"] == "1.2.3"
    (tmp_path / "kept/1.json").write_text('{"version": "1.2.3", "flags": {}}')
    assert vocabulary.kept("sha256:1") == {}, "what an older Tandem was told is asked anew"
    assert "can't be asked" in vocabulary.main(names, "raise SystemExit(1)")["error"]
    assert vocabulary.main(["tandem/engine:2"], "") == {}


@pytest.mark.parametrize("file", sorted(FOLDER.glob("vllm-*.json")), ids=lambda path: path.stem)
def test_a_shipped_vocabulary_is_whole(file: Path) -> None:
    found = json.loads(file.read_text())
    assert found["version"] == file.stem.removeprefix("vllm-") and found["format"] == vocabulary.FORMAT
    assert len(found["environment"]) > 200 and len(found["flags"]) > 200 and len(found["kernels"]) > 20
    assert "nemotron_v3" in found["reasoning_parsers"] and "qwen3_coder" in found["tool_parsers"]
    unknown = [name for name, facts in found["flags"].items() if "takes" not in facts]
    assert len(unknown) < 12, f"what these take is not read: {unknown}"
    assert found["flags"]["max-model-len"]["takes"] == "size or auto"
    assert found["flags"]["gpu-memory-utilization"]["bounds"] == {"gt": 0, "le": 1}
    assert found["flags"]["enforce-eager"] == {"takes": "switch"}
