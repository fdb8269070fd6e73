"""Who imports whom among the steps of a deploy: `deploy.py` joins them, and none of them knows another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plan.samples import ROOT


def imported(path: Path) -> Iterator[str]:
    """Modules of `operations`, without its name, that a file imports: at its top, or anywhere else."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("operations."):
            yield from (f"{node.module}.{each.name}".removeprefix("operations.") for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name.removeprefix("operations.") for each in node.names)


STEPS = sorted((ROOT / "operations/steps").glob("[!_]*.py"))
FILES = [*STEPS, *sorted((ROOT / "operations/runner").glob("[!_]*.py"))]
#: Values that only make sense where something fills them.
EMPTY = ("{}", "[]", "set()", "dict()", "list()", "''", "0.0", "None")


def test_deploy_joins_every_step() -> None:
    named = {name.removeprefix("steps.").split(".")[0] for name in imported(ROOT / "deploy.py") if "steps" in name}
    assert named - {"steps"} == {file.stem for file in STEPS}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_only_deploy_and_the_verbs_know_a_step(file: Path) -> None:
    assert [name for name in imported(file) if name.partition(".")[0] == "steps"] == []


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
