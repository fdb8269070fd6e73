"""Who imports whom among the steps of a deploy: `deploy.py` joins the phases, and none of them knows another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from manual import rooms
from tests.plan.samples import ROOT


def imported(path: Path) -> Iterator[str]:
    """Modules of `operations`, without its name, that a file imports: at its top, or anywhere else."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "operations":
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("operations."):
            yield str(node.module).removeprefix("operations.")
        elif isinstance(node, ast.Import):
            yield from (each.name.removeprefix("operations.") for each in node.names)


def named_in_deploy() -> list[str]:
    (line,) = (
        node
        for node in ast.parse((ROOT / "deploy.py").read_text()).body
        if isinstance(node, ast.ImportFrom) and node.module == "operations"
    )
    return [each.name for each in line.names]


PHASES = named_in_deploy()
FILES = sorted((ROOT / "operations").glob("*.py"))
#: Values that only make sense where something fills them.
EMPTY = ("{}", "[]", "set()", "dict()", "list()", "''", "0.0", "None")


def test_deploy_names_its_phases() -> None:
    assert {"preflight", "lock", "engine", "verify"} <= set(PHASES)
    assert set(rooms.PHASES.holds) == {f"operations.{name}" for name in PHASES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_only_deploy_and_the_verbs_know_a_phase(file: Path) -> None:
    assert sorted(set(imported(file)) & set(PHASES)) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_a_run_has_done_is_in_its_object_and_in_no_module(file: Path) -> None:
    """Nothing that is empty at first and filled later stands in a module, and nothing is remembered by a cache: but for
    the runs themselves, and for the programs, which are the same in every run.
    """
    found = [
        ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and ast.unparse(node.value or ast.Constant("")) in EMPTY
    ]
    found += [
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef)
        and any(
            ast.unparse(each).split("(")[0].split(".")[-1] in ("cache", "lru_cache") for each in node.decorator_list
        )
    ]
    changed = [
        each for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Global) for each in node.names
    ]
    allowed = {"run": ["_runs"], "remote": ["programs"]}
    assert [*found, *changed] == allowed.get(file.stem, [])
