"""Annotations of vLLM's configuration classes, read and not evaluated: what an argument of such a type takes.

The rules are those of `_compute_kwargs` in vLLM's engine/arg_utils.py, in their order.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BUILTIN = ("int", "float", "str", "bool", "dict", "list", "tuple", "set")


def parse(path: Path) -> ast.Module | None:
    """A source file's tree; None: it is not there, or for another Python."""
    try:
        return ast.parse(path.read_text())
    except (OSError, SyntaxError, ValueError):
        return None


class Sources:
    """Type aliases and classes of vLLM's configuration."""

    def __init__(self, folder: Path) -> None:
        self.aliases: dict[str, ast.expr] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        more = [folder / "engine/arg_utils.py", *sorted(folder.glob("entrypoints/**/*.py"))]
        more += [folder / "renderers/chat_utils.py", folder / "tool_parsers/tool_strict_level.py"]
        for path in [*sorted(folder.glob("config/**/*.py")), *more]:
            for node in getattr(parse(path), "body", []):
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.aliases.setdefault(node.targets[0].id, node.value)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                    self.aliases.setdefault(node.target.id, node.value)
                elif isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, node)
        text = text_of(folder / "engine/arg_utils.py")
        self.sizes = re.findall(r'"(\w+)"', "".join(re.findall(r"(?:name in \(|int_args = \{)([^)}]*)[)}]", text)))
        self.has_maybe = "{bool, str, type(None)}" in text

    def fields(self, name: str) -> dict[str, ast.AnnAssign]:
        """A class's annotated fields, those of its bases among them."""
        found: dict[str, ast.AnnAssign] = {}
        if node := self.classes.get(name):
            for base in (each for each in node.bases if isinstance(each, ast.Name) and each.id != name):
                found |= self.fields(base.id)
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    found[each.target.id] = each
        return found

    def takes(self, owner: str, field: str) -> dict[str, Any]:
        """What vLLM makes of a field of a configuration class."""
        node = self.fields(owner).get(field)
        if node is None:
            return {}
        parts = list(self.parts(node.annotation))
        names = {name_of(part) for part in parts}
        facts = self._kind(field, parts, names)
        if "None" in names and "bool" not in names:
            facts["none"] = True
        if isinstance(node.value, ast.Call) and (limits := _bounds(node.value)):
            facts["bounds"] = limits
        return facts

    def _kind(self, field: str, parts: list[ast.expr], names: set[str]) -> dict[str, Any]:
        """The rules of _compute_kwargs, in their order."""
        if any(self._is_dataclass(name) for name in names):
            return {"takes": "object"}
        if names == {"bool", "str", "None"} and self.has_maybe:
            return {"takes": "maybe"}
        if "bool" in names:
            return {"takes": "switch"}
        if "Literal" in names:
            options = [each for part in parts if name_of(part) == "Literal" for each in inside(part)]
            return self._options(options, is_open="str" in names)
        for part in parts:
            if name_of(part) in ("tuple", "list", "set"):
                return self._collection(part)
        if "int" in names:
            kind = "size or auto" if field == "max_model_len" else "size" if field in self.sizes else "int"
            return {"takes": kind}
        if "float" in names:
            return {"takes": "float"}
        if "dict" in names or any(self._is_dict(name) for name in names):
            others = [n for n in names if n not in _BUILTIN and n != "None" and not self._is_dict(n)]
            return {"takes": "object or text" if "str" in names or others else "object"}
        return {"takes": "text"}

    def _options(self, options: list[ast.expr], *, is_open: bool) -> dict[str, Any]:
        named = [each for each in options if isinstance(each, ast.Name)]
        options = [each for each in options if each not in named]
        options += [o for n in named for p in self.parts(n) for o in inside(p)]
        values = [each.value for each in options if isinstance(each, ast.Constant)]
        takes = "int" if values and all(type(value) is int for value in values) else "word"
        if is_open or len(values) != len(options):
            return {"takes": takes if takes == "int" else "text"}
        return {"takes": takes, "choices": [str(value) for value in values]}

    def _collection(self, part: ast.expr) -> dict[str, Any]:
        every = inside(part)
        types = [each for each in every if not (isinstance(each, ast.Constant) and each.value is ...)]
        has_end = name_of(part) != "tuple" or len(types) != len(every)
        many = "+" if has_end or not types else str(len(types))
        elements = list(self.parts(types[0])) if types else []
        names = {name_of(each) for each in elements}
        if names == {"Literal"}:
            return self._options([o for e in elements for o in inside(e)], is_open=False) | {"many": many}
        takes = next(iter(names)) if names in ({"int"}, {"float"}) else "text"
        return {"takes": takes, "many": many}

    def parts(self, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
        """The members of a union, with aliases filled in."""
        if depth > 12:
            return
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                yield from self.parts(ast.parse(node.value, mode="eval").body, depth + 1)
            except SyntaxError:
                return
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            yield from self.parts(node.left, depth + 1)
            yield from self.parts(node.right, depth + 1)
        elif isinstance(node, ast.Subscript) and name_of(node) in ("Annotated", "SkipValidation"):
            yield from self.parts(inside(node)[0], depth + 1)
        elif isinstance(node, ast.Subscript) and name_of(node) in ("Optional", "Union"):
            for each in inside(node):
                yield from self.parts(each, depth + 1)
            if name_of(node) == "Optional":
                yield ast.Constant(None)
        elif isinstance(node, ast.Name) and node.id in self.aliases and node.id not in _BUILTIN:
            yield from self.parts(self.aliases[node.id], depth + 1)
        else:
            yield node

    def _is_dataclass(self, name: str) -> bool:
        marks = [ast.unparse(each) for each in getattr(self.classes.get(name), "decorator_list", [])]
        return any(re.match(r"(config|dataclass|\w+\.dataclass)\b", mark) for mark in marks)

    def _is_dict(self, name: str) -> bool:
        return name == "dict" or any(name_of(base) == "dict" for base in getattr(self.classes.get(name), "bases", []))


def _bounds(call: ast.Call) -> dict[str, float]:
    """`Field(default=1, ge=1)`: {"ge": 1}."""
    found: dict[str, float] = {}
    for each in call.keywords if name_of(call.func) == "Field" else []:
        if each.arg in ("gt", "ge", "lt", "le"):
            value = constant(each.value)
            found |= {each.arg: value} if isinstance(value, int | float) else {}
    return found


def constant(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def name_of(node: ast.AST) -> str:
    """`int`, `list[int]` and `x.list[int]` by their last name; `None` for None."""
    if isinstance(node, ast.Subscript):
        return name_of(node.value)
    if isinstance(node, ast.Constant) and node.value is None:
        return "None"
    return getattr(node, "id", "") or getattr(node, "attr", "")


def inside(node: ast.expr) -> list[ast.expr]:
    """What stands in brackets."""
    if not isinstance(node, ast.Subscript):
        return []
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
