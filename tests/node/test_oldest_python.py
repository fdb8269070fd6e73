"""Programs for nodes need nothing that Python 3.10 has not: `operations/node/__init__.py` promises it."""

from __future__ import annotations

import ast
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plan.samples import ROOT

#: What came with Python 3.11 and later, by module (docs.python.org, "What's New"): none of it is in Ubuntu 22.04's.
NEWER = {
    "datetime": {"UTC"},
    "enum": {"StrEnum", "verify", "member", "nonmember", "global_enum"},
    "asyncio": {"TaskGroup", "Runner", "timeout", "timeout_at", "Barrier"},
    "contextlib": {"chdir"},
    "hashlib": {"file_digest"},
    "itertools": {"batched"},
    "typing": {"Self", "Never", "LiteralString", "Required", "NotRequired", "assert_never", "override", "Unpack"},
    "tomllib": {"*"},
}
PROGRAMS = sorted(
    path
    for folder in ("operations/node", "files")
    for path in (ROOT / folder).rglob("*.py")
    # Those run in a container, with its Python.
    if "images" not in path.parts and "litellm" not in path.parts
)


def newer(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module in NEWER:
            yield from (each.name for each in node.names if {each.name, "*"} & NEWER[node.module])
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if "*" in NEWER.get(each.name, ()))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield from (node.attr for name in [node.value.id] if node.attr in NEWER.get(name, ()))
        elif isinstance(node, ast.TryStar):
            yield "except*"


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_program_for_nodes_runs_on_python_3_10(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 10))
    assert list(newer(path.read_text())) == []


def test_what_is_newer_is_seen() -> None:
    assert list(newer("from datetime import UTC, datetime")) == ["UTC"]
    assert list(newer("import tomllib, json\nimport hashlib\nhashlib.file_digest")) == ["tomllib", "file_digest"]


#: A double of Python 3.10: whoever imports these modules from here on does not find in them what came later.
_WITHOUT = """
import datetime, importlib, sys, types, typing
for module, names in {"datetime": ["UTC"], "typing": %r}.items():
    left = {name: value for name, value in vars(sys.modules[module]).items() if name not in names}
    sys.modules[module] = types.ModuleType(module)
    vars(sys.modules[module]).update(left)
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def test_all_of_them_can_be_imported_where_that_is_missing() -> None:
    """With what they import of `operations`, which travels with them."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in PROGRAMS if "operations" in path.parts]
    later = sorted(name for name in NEWER["typing"] if hasattr(typing, name))
    argv = [sys.executable, "-c", _WITHOUT % later, *names]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-600:]
