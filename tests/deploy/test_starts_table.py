"""What `tandem starts` prints of what nodes keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from operations.verbs.report import starts_table
from tests.deploy.fake import NAMES, deploy, look, planned
from tests.node.test_starts import start
from tests.support.command_line import tandem


def test_each_start_has_a_row_and_one_that_failed_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    passed = {"container": 2.0, "meeting": 500.0, "weights": 180.0, "server": 8.0}
    good: Any = start(phases=passed, gib=69.5, read_gib=70.2, loader="fastsafetensors")
    bad: Any = start(ended="weights", why="ImportError: x", blamed="fastsafetensors")
    told: Any = {"spark-1": {"starts": [good, bad], "under_way": {"tandem-engine": "starts since 3 s"}}}
    told["spark-2"] = {"starts": [], "under_way": {}}
    starts_table(told, ["spark-3 does not answer"])
    said = capsys.readouterr().out
    row = next(line for line in said.splitlines() if "69.5 GiB" in line)
    # The wait for others is shown, and is no part of what the start took.
    assert "3 min 10 s" in row and "500 s" in row and "0.39 GiB/s, 70.2 GiB from disk, by fastsafetensors" in row
    assert "autotune" not in said and "spark-3 does not answer" in said
    assert "spark-1 tandem-engine: starts since 3 s" in said
    assert "tandem-engine: ended in weights (held against the loader fastsafetensors): ImportError: x" in said


def test_a_node_without_starts_says_that_none_is_kept_yet(capsys: pytest.CaptureFixture[str]) -> None:
    starts_table({"spark-1": {"starts": [], "under_way": {}}})
    assert capsys.readouterr().out.startswith("no start is kept yet")


def test_programs_read_what_starts_took(tmp_path: Path) -> None:
    told = {"unit.starts": {"starts": [start()], "under_way": {}}}
    deploy(tmp_path, [look(planned(topology="solo"), NAMES[0])], "--dry", programs=told)
    done = tandem(tmp_path, "starts", "--json", "--inventory", str(tmp_path / "nodes.py"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"nodes": {NAMES[0]: told["unit.starts"]}, "absent": []}
    done = tandem(tmp_path, "starts", "--model", "coder", "--inventory", str(tmp_path / "nodes.py"))
    assert done.returncode == 1 and "no model is named `coder`" in done.stderr
