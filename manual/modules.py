"""A module of Tandem's as it is parsed: its functions, and its names that stand for a text or a number."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


@dataclass
class Module:
    """`path`: from the repository's root. `imported`: the file that a name is taken from, where it is one of ours."""

    path: str
    tree: ast.Module
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    #: Names of dictionaries, with their values as they are written.
    tables: dict[str, list[ast.expr]] = field(default_factory=dict)
    #: What is known of functions that make messages (sites.py).
    makers: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def constant(self, name: str) -> Any:
        """What a name of the module's stands for; None: a run alone knows."""
        there = self.imported.get(name)
        return module(there).constants.get(name) if there else self.constants.get(name)


@cache
def module(path: str) -> Module:
    """The module of a file."""
    tree = ast.parse((ROOT / path).read_text())
    made = Module(path, tree, {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)})
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(value, ast.Constant) and isinstance(target, ast.Name):
            made.constants[target.id] = value.value
        if isinstance(value, ast.Dict) and isinstance(target, ast.Name):
            made.tables[target.id] = value.values
        if isinstance(node, ast.ImportFrom) and (there := _file_of(node)):
            made.imported |= {alias.asname or alias.name: there for alias in node.names}
    return made


def _file_of(node: ast.ImportFrom) -> str:
    """The file that names are imported from; empty: it is not one of ours."""
    name = (node.module or "").replace(".", "/")
    if not name.startswith(("operations", "bench")):
        return ""
    return next((each for each in (f"{name}.py", f"{name}/__init__.py") if (ROOT / each).is_file()), "")
