"""A Python that is too old is told in one line, before any file that it could not read; each other that is here
runs what an owner's machine runs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.deploy.fake import NAMES, fresh, inventory_of, planned
from tests.init import landed, pythons
from tests.plan.samples import ROOT
from tests.support.command_line import HELP, OFF, tandem

OLDER = (6, 7, 8, 9, 10)
#: Those that the manual names, but for the one that runs this.
OTHERS = sorted({11, 12, 13} - {sys.version_info[1]})
SAID = "tandem needs Python 3.11 or newer, and this is 3."


@pytest.mark.parametrize("minor", OLDER)
def test_an_old_python_is_told(minor: int) -> None:
    if not (programs := pythons.found(minor)):
        pytest.skip(f"no Python 3.{minor} is here")
    for python in programs:
        ran = subprocess.run([python, "-m", "operations.command", "init"], cwd=ROOT, capture_output=True, text=True)
        assert ran.returncode == 1 and ran.stderr.startswith(SAID) and ran.stderr.count("\n") == 1, ran.stderr


def test_this_one_were_it_older() -> None:
    program = "import sys; sys.version_info = (3, 9, 2); import operations.command"
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 1 and ran.stderr.startswith(f"{SAID}9: ") and ran.stderr.count("\n") == 1


def test_make_tells_it_too(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    words = [f"PYTHON={old}", f"VENV={tmp_path}/venv", f"{tmp_path}/venv/bin/python"]
    ran = subprocess.run(["make", *words], cwd=ROOT, capture_output=True, text=True)
    assert "Tandem needs Python 3.11 or newer" in ran.stderr and ran.returncode == 2
    assert not (tmp_path / "venv").exists()


def test_each_python_that_is_promised_is_tried() -> None:
    allowed = re.search(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    promised = re.search(r"Linux, Python 3\.(\d+) to 3\.(\d+)", (ROOT / "docs/your-cluster.md").read_text())
    assert allowed and promised and allowed[1] == promised[1]
    tried = {sys.version_info[1], *OTHERS}
    assert set(range(int(promised[1]), int(promised[2]) + 1)) <= tried


@pytest.fixture(scope="module", params=OTHERS)
def other(request: pytest.FixtureRequest) -> str:
    """A Python of an environment with what is locked."""
    return pythons.environment(request.param)


def test_another_python_reads_all_of_it_without_a_warning(other: str, tmp_path: Path) -> None:
    """As `\\d` in a plain text, which is an error in a Python to come."""
    argv = [other, "-W", "error::SyntaxWarning", "-m", "compileall", "-q", "-f"]
    parts = ("operations", "bench", "files", "group_data", "config.py", "deploy.py", "inventory.py")
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    ran = subprocess.run([*argv, *parts], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_another_python_plans_the_same(other: str) -> None:
    """Each recipe in each of its topologies, and every node's files."""
    ran = subprocess.run([other, "-m", landed.__name__], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == _here()


@cache
def _here() -> dict[str, str]:
    return landed.landed()


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        (["--help"], 0, HELP.read_text()),
        (["recipes"], 0, "nemotron-3-super-nvfp4-auto"),
        (["advise", "8 users chat"], 0, "Run "),
        (["init", "new", "--nodes", "127.0.0.1:1", "--user", "me", "--yes"], 3, "does not answer (connection refused)"),
        (["init", ".", "--nodes", "a,a", "--yes"], 2, "nodes: `a` is there twice; name each Spark once"),
        (["status"], 3, "no node answers"),
    ],
)
def test_another_python_says_the_same(other: str, tmp_path: Path, typed: list[str], code: int, said: str) -> None:
    (tmp_path / "inventory.py").write_text(OFF)
    done = tandem(tmp_path, *typed, python=other)
    assert done.returncode == code and said in done.stdout + done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr


def test_another_python_deploys(other: str, tmp_path: Path) -> None:
    """The whole deploy, with pyinfra, on nodes that answer from a script."""
    plan = planned(topology="replicas")
    nodes = inventory_of(tmp_path, [fresh(plan, name) for name in NAMES])
    done = tandem(tmp_path, "apply", "topology=replicas", "--inventory", str(nodes), python=other)
    assert done.returncode == 0 and "Engine | start" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr
