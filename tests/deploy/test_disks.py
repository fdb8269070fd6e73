"""`tandem models` and the verbs behind it as an owner types them: real pyinfra, nodes that answer from a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from operations.plan.history import record
from tests.command.test_command import tandem
from tests.deploy.fake import NAMES, OFF, deploy, look, planned

A, B = "a" * 40, "b" * 40
PLAN = planned(topology="cluster")
WANTED = PLAN.models[0].recipe.model
OURS: dict[str, Any] = {"whole": "proven", "problems": [], "brought": True, "pinned": False, "served": 0.0}
OURS |= {"busy": [], "units": []}
SHELF: dict[str, Any] = {
    "models": [
        {**OURS, "folder": WANTED.folder, "revision": WANTED.revision, "files": {"1:1": 80_000_000_000}},
        {**OURS, "folder": "models--org--old", "revision": A, "files": {"1:2": 60_000_000_000, "1:3": 7_000_000_000}},
        {**OURS, "folder": "models--org--old", "revision": B, "files": {"1:2": 60_000_000_000}, "pinned": True},
        {**OURS, "folder": "models--org--mine", "revision": A, "files": {"1:4": 5_000_000_000}, "brought": False},
    ],
    "kernels": [{"tag": "0123456789ab", "bytes": 300_000_000, "busy": [], "units": []}],
    "needs": [],
    "images": [],
    "free": 10**12,
}
SERVING = {**SHELF, "models": [{**SHELF["models"][1], "busy": ["tandem-engine uses it"]}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An owner's folder with two nodes: `nodes(folder, shelf)` says what lies on them."""
    nodes(tmp_path, SHELF)
    return tmp_path


def nodes(folder: Path, first: dict[str, Any], second: dict[str, Any] | None = None) -> None:
    programs: dict[str, Any] = {
        "unit.disks": first,
        "unit.take_away": {"freed": 7_300_000_000, "problems": []},
        "unit.take_away:pin": {"freed": 0, "problems": []},
    }
    states = [look(PLAN, NAMES[0]), OFF if second is None else look(PLAN, NAMES[1])]
    by_node = {NAMES[1]: {"unit.disks": second}} if second else {}
    # For its inventory alone.
    deploy(folder, states, "--dry", "--limit", "nobody", programs=programs, by_node=by_node)


def models(folder: Path, *words: str) -> tuple[int, str, str]:
    done = tandem(folder, "models", *words, "--inventory", str(folder / "nodes.py"), "--data", "topology=cluster")
    return done.returncode, done.stdout, done.stderr


def test_what_lies_on_each_node_is_a_table_and_for_programs_json(folder: Path) -> None:
    code, out, _ = models(folder)
    assert code == 0
    rows = {line.split()[1]: line for line in out.splitlines() if line.startswith("@fake/spark-1 ")}
    assert "(declared)" in rows[WANTED.repo] and "80.0" in rows[WANTED.repo]
    assert "pinned" in next(line for line in out.splitlines() if f"org/old {B[:12]}" in line)
    assert "@fake/spark-1: 152.3 GB, files that several have once; 1000.0 GB free" in out
    assert "`tandem models prune` would free 7.3 GB" in out
    assert "spark-2 does not answer" in out
    code, out, _ = models(folder, "--json")
    told = json.loads(out)
    [old, *_] = [each for each in told["nodes"]["@fake/spark-1"]["things"] if each["repo"] == "org/old"]
    assert old["bytes"] == 67_000_000_000 and old["frees"] == 7_000_000_000 and old["may_go"]
    assert old["last"] is None and "spark-2" in told["absent"][0]


def test_a_removal_is_listed_and_nothing_goes_where_nobody_is_there_to_be_asked(folder: Path) -> None:
    code, out, err = models(folder, "prune")
    assert code == 2 and "models prune: nobody is there to be asked; `--yes` does it without asking" in err
    assert out.splitlines() == [
        "@fake/spark-1",
        f"    67.0 GB  org/old {A[:12]}",
        "     0.3 GB  kernels 0123456789ab",
        "together 7.3 GB would be free",
    ]
    code, out, _ = models(folder, "prune", "--yes")
    assert code == 0 and out.splitlines()[-1] == "@fake/spark-1: 7.3 GB freed"


def test_what_a_plan_needs_goes_by_its_name_alone_and_that_is_said(folder: Path) -> None:
    code, out, _ = models(folder, "rm", WANTED.repo, "--yes")
    needed = f"which {PLAN.models[0].recipe.name} (declared) needs: it would be fetched again"
    assert code == 0 and needed in out and out.splitlines()[-1] == "@fake/spark-1: 7.3 GB freed"


def test_what_serves_on_one_node_is_removed_from_none(tmp_path: Path) -> None:
    nodes(tmp_path, SHELF, SERVING)
    code, out, err = models(tmp_path, "rm", f"org/old@{A}", "--yes")
    [line] = [line for line in err.splitlines() if "org/old" in line]
    assert code == 1 and out == ""
    assert f"org/old {A[:12]} can't be removed: tandem-engine uses it: `tandem down` stops what serves" in line
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rm", "org/odl"], "no node that answers has `org/odl`: did you mean `org/old`?"),
        (["pin", "nothing"], "no node that answers has `nothing`: `tandem models` lists all"),
        (["rm", "org/old"], f"org/old {B[:12]} can't be removed: it is pinned: `tandem models unpin org/old` first"),
    ],
)
def test_a_name_that_can_t_be_meant_is_one_line(folder: Path, words: list[str], said: str) -> None:
    code, out, err = models(folder, *words)
    assert code == 1 and out == "" and len([line for line in err.splitlines() if said in line]) == 1, err


def test_a_pin_says_what_stays(folder: Path) -> None:
    code, out, _ = models(folder, "pin", "org/mine")
    assert code == 0 and out.splitlines()[0] == f"@fake/spark-1: org/mine {A[:12]} stays until it is unpinned"
    code, out, _ = models(folder, "unpin", f"old@{B[:4]}")
    assert code == 0 and out.splitlines()[0] == f"@fake/spark-1: org/old {B[:12]} is not pinned"


def test_what_is_left_over_on_the_nodes_of_two_records_counts_for_both(tmp_path: Path) -> None:
    """A node that was away remembers another plan; what either needs stays on both."""
    past = record(PLAN, {})["recipe"]["model"]
    need = {"folder": "models--org--old", "revision": A, "who": "old", "when": "2026-11-20 09:00"}
    nodes(tmp_path, SHELF, {**SHELF, "needs": [need]})
    code, out, _ = models(tmp_path, "--json")
    told = json.loads(out)["nodes"]
    assert code == 0 and past["repo"] == WANTED.repo
    for name in NAMES:
        [old] = [each for each in told[name]["things"] if each["revision"] == A and each["repo"] == "org/old"]
        assert old["needed_by"] == ["old (plan of 2026-11-20 09:00)"] and not old["may_go"]
