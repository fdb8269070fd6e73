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


def main(arguments: list[str]) -> dict[str, Any]:
    """The vocabulary of the vLLM in a folder of packages; without one, of the vLLM that this Python would import."""
    if arguments:
        folder = Path(arguments[0]) / "vllm"
        ray = (Path(arguments[0]) / "ray").is_dir()
        found = [path.stem.split("-")[1] for path in Path(arguments[0]).glob("vllm-*.dist-info")]
        version = found[0] if found else ""
    else:
        spec = importlib.util.find_spec("vllm")
        if spec is None or not spec.submodule_search_locations:
            return {}
        folder = Path(spec.submodule_search_locations[0])
        ray = importlib.util.find_spec("ray") is not None
        version = importlib.metadata.version("vllm")
    literals = Literals(folder)
    return {
        "version": version.split("+")[0],
        "environment": environment(folder / "envs.py"),
        "flags": flags(folder, literals),
        "reasoning_parsers": registered(folder / "reasoning", "_REASONING_PARSERS_TO_REGISTER"),
        "tool_parsers": registered(folder / "tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
        "kernels": kernels(folder / "model_executor"),
        "ray": ray,
    }


def parse(path: Path) -> ast.Module | None:
    """A source file's tree; None: it is not there, or for another Python."""
    try:
        return ast.parse(path.read_text())
    except (OSError, SyntaxError, ValueError):
        return None


def environment(path: Path) -> dict[str, list[str] | None] | None:
    """Variables of envs.py, each with its choices where it has any."""
    table = assigned(parse(path), "environment_variables")
    if not isinstance(table, ast.Dict):
        return None
    names = {}
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant):
            names[str(key.value)] = _env_choices(value)
    return names


def _env_choices(value: ast.expr) -> list[str] | None:
    """`env_with_choices(name, default, [choices])` and its kin."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and "choices" in value.func.id:
        for argument in value.args[2:]:
            if isinstance(argument, ast.List):
                return [str(each.value) for each in argument.elts if isinstance(each, ast.Constant)]
    return None


def flags(folder: Path, literals: Literals) -> dict[str, dict[str, Any]] | None:
    """`name -> {choices, short}` of `vllm serve`: engine arguments and those of the server in front."""
    trees = [parse(folder / "engine/arg_utils.py"), *map(parse, sorted(folder.glob("entrypoints/**/cli_args.py")))]
    found: dict[str, dict[str, Any]] = {}
    for tree in (tree for tree in trees if tree):
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
                words = [str(a.value) for a in call.args if isinstance(a, ast.Constant)]
                for long in (word for word in words if word.startswith("--")):
                    name = long[2:].replace("_", "-")
                    short = [w[1:] for w in words if w.startswith("-") and not w.startswith("--")]
                    found[name] = {"choices": literals.of(name.replace("-", "_")), "short": short}
        for node in (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name.endswith("FrontendArgs")):
            for field in (each for each in node.body if isinstance(each, ast.AnnAssign)):
                if isinstance(field.target, ast.Name):
                    name = field.target.id.replace("_", "-")
                    found.setdefault(name, {"choices": literals.choices(field.annotation), "short": []})
    if not found:
        return None
    if backends := literals.enum(folder / "v1/attention/backends/registry.py", "AttentionBackendEnum"):
        found.setdefault("attention-backend", {"short": []})["choices"] = backends
    return dict(sorted(found.items()))


class Literals:
    """Type aliases and fields of vLLM's configuration, to find what a flag may be."""

    def __init__(self, folder: Path) -> None:
        self.aliases: dict[str, ast.expr] = {}
        self.fields: dict[str, ast.expr] = {}
        for path in [*sorted(folder.glob("config/**/*.py")), folder / "engine/arg_utils.py"]:
            for node in ast.walk(parse(path) or ast.Module([], [])):
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.aliases.setdefault(node.targets[0].id, node.value)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                    if isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias":
                        self.aliases.setdefault(node.target.id, node.value)
                elif isinstance(node, ast.ClassDef) and node.name == "EngineArgs":
                    for field in (each for each in node.body if isinstance(each, ast.AnnAssign)):
                        if isinstance(field.target, ast.Name):
                            self.fields[field.target.id] = field.annotation

    def of(self, field: str) -> list[str] | None:
        """What an engine argument may be; None: anything."""
        return self.choices(self.fields[field]) if field in self.fields else None

    def choices(self, node: ast.expr, depth: int = 0) -> list[str] | None:
        """The strings of a Literal, or of a union of them; None when something else is allowed as well."""
        if depth > 8:
            return None
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                return self.choices(ast.parse(node.value, mode="eval").body, depth + 1)
            except SyntaxError:
                return None
        if isinstance(node, ast.Name):
            return self.choices(self.aliases[node.id], depth + 1) if node.id in self.aliases else None
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if node.value.id == "Literal":
                constants = [each.value for each in inside if isinstance(each, ast.Constant)]
                return [str(each) for each in constants] if len(constants) == len(inside) else None
            if node.value.id in ("Optional", "Union"):
                return self._union(inside, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._union([node.left, node.right], depth)
        return None

    def _union(self, parts: list[ast.expr], depth: int) -> list[str] | None:
        every: list[str] = []
        for part in parts:
            if isinstance(part, ast.Constant) and part.value is None:
                continue
            some = self.choices(part, depth + 1)
            if some is None:
                return None
            every += some
        return every

    @staticmethod
    def enum(path: Path, name: str) -> list[str] | None:
        """The members of an enumeration."""
        for node in ast.walk(parse(path) or ast.Module([], [])):
            if isinstance(node, ast.ClassDef) and node.name == name:
                targets = [each.targets[0] for each in node.body if isinstance(each, ast.Assign)]
                return [target.id for target in targets if isinstance(target, ast.Name)]
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
