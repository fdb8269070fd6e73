"""The words that a vLLM understands: `python3 vocabulary.py [SITE-PACKAGES]` prints them as JSON.

Runs in an image, without a GPU: the sources are read and not imported (an import takes half a minute and wants a
driver). What a fork lays out differently comes out as null, and is then not judged.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from annotations import parse
from arguments import flags

#: Of what is printed; a node asks its images anew when it is another (operations/node/image/vocabulary.py).
FORMAT = 2


def main(argv: list[str]) -> dict[str, Any]:
    """The vocabulary of the vLLM in a folder of packages; without one, of the vLLM that this Python would import."""
    if argv:
        folder = Path(argv[0]) / "vllm"
        ray = (Path(argv[0]) / "ray").is_dir()
        found = [path.stem.split("-")[1] for path in Path(argv[0]).glob("vllm-*.dist-info")]
        version = found[0] if found else ""
    else:
        spec = importlib.util.find_spec("vllm")
        if spec is None or not spec.submodule_search_locations:
            return {}
        folder = Path(spec.submodule_search_locations[0])
        ray = importlib.util.find_spec("ray") is not None
        version = importlib.metadata.version("vllm")
    return {
        "format": FORMAT,
        "version": version.split("+")[0],
        "environment": environment(folder / "envs.py"),
        "flags": flags(folder),
        "reasoning_parsers": registered(folder / "reasoning", "_REASONING_PARSERS_TO_REGISTER"),
        "tool_parsers": registered(folder / "tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
        "kernels": kernels(folder / "model_executor"),
        "ray": ray,
    }


def environment(path: Path) -> dict[str, list[str] | str | None] | None:
    """Variables of envs.py, each with its choices, or with `int` or `float` where a text that is none is an error."""
    table = assigned(parse(path), "environment_variables")
    if not isinstance(table, ast.Dict):
        return None
    names: dict[str, list[str] | str | None] = {}
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant):
            called = rf"\b(int|float)\(os\.(?:getenv|environ\.get)\({str(key.value)!r}"
            number = re.search(called, ast.unparse(value))
            names[str(key.value)] = _env_choices(value) or (number.group(1) if number else None)
    return names


def _env_choices(value: ast.expr) -> list[str] | None:
    """`env_with_choices(name, default, [choices])` and its kin."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and "choices" in value.func.id:
        for argument in value.args[2:]:
            if isinstance(argument, ast.List):
                return [str(each.value) for each in argument.elts if isinstance(each, ast.Constant)]
    return None


def registered(folder: Path, table: str) -> list[str] | None:
    """Names of a lazy registry of parsers, and of modules that register themselves."""
    entries = assigned(parse(folder / "__init__.py"), table)
    if not isinstance(entries, ast.Dict):
        return None
    names = {str(key.value) for key in entries.keys if isinstance(key, ast.Constant)}
    for path in folder.glob("*.py"):
        names |= set(re.findall(r"register_module\(\s*(?:name=)?[\"']([\w.-]+)[\"']", path.read_text()))
    return sorted(names)


def kernels(folder: Path) -> list[str] | None:
    """Classes that VLLM_DISABLED_KERNELS can name."""
    names = {name for path in _sources(folder) for name in re.findall(r"^class (\w+Kernel)\b", path.read_text(), re.M)}
    return sorted(names) or None


def _sources(folder: Path) -> Iterator[Path]:
    for part in ("kernels", "layers"):
        yield from folder.glob(f"{part}/**/*.py")


def assigned(tree: ast.Module | None, name: str) -> ast.expr | None:
    """The value that a module gives to a name."""
    for node in tree.body if tree else []:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return node.value  # type: ignore[attr-defined, no-any-return]
    return None


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
