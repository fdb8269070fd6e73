"""`tandem models` and the verbs behind it as an owner types them: real pyinfra, nodes that answer from a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from operations.plan import disks
from operations.verbs import disk_table
from tests.deploy.fake import NAMES, OFF, deploy, inventory_of, look, planned
from tests.deploy.test_lease import BUSY
from tests.support.command_line import tandem

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


def things(*shelves: dict[str, Any]) -> list[disks.Thing]:
    """As the verbs see these nodes."""
    return disks.things(PLAN.declared, nodes(*shelves))


def nodes(*shelves: dict[str, Any]) -> Any:
    return dict(zip(NAMES, shelves, strict=False))


def models(folder: Path, *words: str, second: dict[str, Any] | None = None, failing: str = "") -> tuple[int, str, str]:
    """`tandem models ...` with a node that has SHELF, and another one that is off or has the `second`, where a program
    may be `failing`.
    """
    programs: dict[str, Any] = {
        "unit.disks": SHELF,
        "unit.take_away": {"freed": 7_300_000_000, "problems": []},
        "unit.take_away:pin": {"freed": 0, "problems": []},
    }
    states = [look(PLAN, NAMES[0]), look(PLAN, NAMES[1]) if second else OFF]
    file = inventory_of(
        folder,
        states,
        programs=programs,
        by_node={NAMES[1]: {"unit.disks": second}} if second else {},
        failing={NAMES[1]: [failing]} if failing else {},
    )
    done = tandem(folder, "models", *words, "--inventory", str(file), "--data", "topology=cluster")
    return done.returncode, done.stdout, done.stderr


def test_what_lies_on_each_node_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    disk_table.show(things(SHELF), nodes(SHELF))
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.startswith("@fake/spark-1 ")]
    assert WANTED.repo in rows[0] and " 80.0 " in rows[0] and "(declared)" in rows[0]
    assert "may go" in rows[1] and f"org/old {A[:12]}" in rows[1] and "whole, every byte proven" in rows[1]
    assert "pinned" in rows[2] and f"org/old {B[:12]}" in rows[2]
    assert "@fake/spark-1: 152.3 GB, files that several have once; 1000.0 GB free" in out
    assert "`tandem models prune` would free 7.3 GB" in out


def test_programs_read_it_in_bytes_with_the_nodes_that_are_away(tmp_path: Path) -> None:
    code, out, _ = models(tmp_path, "--json")
    told = json.loads(out)
    [old, *_] = [each for each in told["nodes"]["@fake/spark-1"]["things"] if each["repo"] == "org/old"]
    assert code == 0 and old["bytes"] == 67_000_000_000 and old["frees"] == 7_000_000_000 and old["may_go"]
    assert old["last"] is None and "spark-2 does not answer" in told["absent"][0]


def test_a_removal_is_listed_and_nothing_goes_where_nobody_is_there_to_be_asked(tmp_path: Path) -> None:
    code, out, err = models(tmp_path, "prune")
    assert code == 2 and "models prune: nobody is there to be asked; `--yes` does it without asking" in err
    assert "spark-2 does not answer" in err
    assert out.splitlines() == [
        "@fake/spark-1",
        f"    67.0 GB  org/old {A[:12]}",
        "     0.3 GB  kernels 0123456789ab",
        "together 7.3 GB would be free",
    ]


def test_what_a_plan_needs_goes_by_its_name_alone_and_that_is_said(tmp_path: Path) -> None:
    code, out, _ = models(tmp_path, "rm", WANTED.repo, "--yes")
    needed = f"which {PLAN.models[0].recipe.name} (declared) needs: it would be fetched again"
    assert code == 0 and needed in out and out.splitlines()[-1] == "@fake/spark-1: 7.3 GB freed"


def test_what_serves_on_one_node_is_removed_from_none(tmp_path: Path) -> None:
    code, out, err = models(tmp_path, "rm", f"org/old@{A}", "--yes", second=SERVING)
    [line] = [line for line in err.splitlines() if "org/old" in line]
    assert code == 1 and out == ""
    assert f"org/old {A[:12]} can't be removed: tandem-engine uses it: `tandem down` stops what serves" in line
    assert "Traceback" not in err


def test_a_pin_says_what_stays(tmp_path: Path) -> None:
    code, out, _ = models(tmp_path, "pin", "org/mine")
    assert code == 0 and out.splitlines()[0] == f"@fake/spark-1: org/mine {A[:12]} stays until it is unpinned"


def test_nothing_is_removed_while_a_deploy_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = [look(PLAN, name) for name in NAMES]
    monkeypatch.setenv("SHOWN", json.dumps({NAMES[0]: [f"models--org--old@{A}"]}))
    outcome = deploy(
        tmp_path,
        states,
        "-y",
        *("--data", "topology=cluster", "--data", "_do=prune", "--data", "_remove=1"),
        file="operations/verbs/models.py",
        programs={"unit.disks": SHELF},
        inventory=BUSY,
    )
    assert outcome.refused and "another deploy is at work (a test)" in outcome.text and "freed" not in outcome.text


def test_what_either_node_remembers_stays_on_both() -> None:
    """A node that was away remembers another plan."""
    need = {"folder": "models--org--old", "revision": A, "who": "old", "when": "2026-11-20 09:00"}
    found = [each for each in things(SHELF, {**SHELF, "needs": [need]}) if each.key == f"models--org--old@{A}"]
    assert [each.node for each in found] == list(NAMES)
    assert all(each.who == ("old (plan of 2026-11-20 09:00)",) and each.stays for each in found)


def test_a_pull_touches_no_engine_and_a_model_that_is_there_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = PLAN.models[0].recipe.name
    monkeypatch.setenv("PULLED", json.dumps({"name": recipe}))
    data = ("--data", "topology=cluster")
    states = [look(PLAN, name) for name in NAMES]
    outcome = deploy(tmp_path, states, "-y", *data, file="operations/verbs/pull.py")
    assert outcome.code == 0 and outcome.commands == [], outcome.text
    assert "Model | on the other nodes" in outcome.text and "Engine |" not in outcome.text
    # Before a first deploy the rails are no way to another node.
    for link in states[1]["links"].values():
        link["addresses"] = []
    outcome = deploy(tmp_path, states, "-y", *data, file="operations/verbs/pull.py")
    assert f"no rail of {NAMES[1]} has its address yet: `tandem apply` copies the model there" in outcome.text
    assert "Model | on the other nodes" not in outcome.text


@pytest.mark.parametrize(
    ("words", "program", "said"),
    [
        (("rm", f"org/old@{A}", "--yes"), "unit.take_away", f"{NAMES[0]}: 7.3 GB freed"),
        (("pin", f"org/old@{A}"), "unit.take_away:pin", f"{NAMES[0]}: org/old {A[:12]} stays until it is unpinned"),
    ],
)
def test_a_node_that_gave_no_answer_is_a_problem_and_nothing_is_told_of_it(
    tmp_path: Path, words: tuple[str, ...], program: str, said: str
) -> None:
    code, out, err = models(tmp_path, *words, second=SHELF, failing=program)
    assert code == 1 and f"{NAMES[1]} gave no answer" in err and "Traceback" not in err
    assert said in out and not [line for line in out.splitlines() if line.startswith(f"{NAMES[1]}: ")]
