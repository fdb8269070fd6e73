"""A further service is a file, a folder and a line in the list: nothing else knows it, and it is treated alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from operations.node.look import status
from operations.node.unit import services
from operations.paths import CANARY, ENGINE, ETC, FIREWALL, GUARD, PROXY, folder_of, unit_file
from operations.plan.services import registry
from operations.plan.services.contract import Start
from tests.deploy.beacon.service import BEACON, with_beacon
from tests.deploy.fake import NAMES, Outcome, deploy, flags, look, planned

WANTED = {"topology": "solo", "monitoring": "metrics"}
#: At the end of an inventory: the deploy's own list has the line.
LINE = """
from operations.plan.services import registry
from tests.deploy.beacon import service as _beacon
registry.SERVICES = _beacon.with_beacon({!r})
"""
#: Its place in a whole deploy: behind the first command of a node, and before the second.
PLACES = {
    Start.SETTING: ("beacon/beacon.py", f"start --no-block {ENGINE}.service"),
    Start.BEFORE_ENGINE: ("beacon/beacon.py", f"start --no-block {ENGINE}.service"),
    Start.AFTER_ENGINE: (f"start --no-block {ENGINE}.service", f"systemctl stop {PROXY}.service"),
    Start.AT_END: (f"start --no-block {PROXY}.service", ""),
}


@pytest.fixture
def listed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Start:
    """The beacon is in the list, and starts then."""
    start: Start = getattr(request, "param", Start.AFTER_ENGINE)
    monkeypatch.setattr(registry, "SERVICES", with_beacon(start.name))
    return start


def deployed(folder: Path, states: list[Any], start: Start | None, **more: Any) -> Outcome:
    folder.mkdir(exist_ok=True)
    knobs = WANTED | more.pop("knobs", {})
    line = LINE.format(start.name) if start else ""
    return deploy(folder, states, "-y", *flags(**knobs), inventory=line, **more)


def removals(outcome: Outcome) -> list[str]:
    return [ran for _, ran in outcome.commands if "disable --now" in ran]


@pytest.mark.parametrize("listed", PLACES, indirect=True, ids=lambda each: each.name)
def test_it_is_rendered_placed_and_started_in_its_turn(listed: Start, tmp_path: Path) -> None:
    plan = planned(**WANTED)
    paths = [f"{folder_of(BEACON)}/beacon.py", f"{folder_of(BEACON)}/beacon.json", unit_file(BEACON)]
    assert [file.path for file in plan.head.services[BEACON].files] == paths
    state = look(plan, NAMES[0])
    for path in paths:
        del state["files"][path]
    state["services"]["units"][BEACON] = {}
    state["services"]["units"][ENGINE]["ActiveState"] = "failed"
    state["services"]["units"][PROXY]["spec"] = "another"
    outcome = deployed(tmp_path, [state], listed)
    assert outcome.code == 0, outcome.text
    begins = "restart" if listed is Start.SETTING else "start --no-block"
    before, after = PLACES[listed]
    placed, started = outcome.position(1, "beacon/beacon.py"), outcome.position(1, f"systemctl {begins} {BEACON}")
    assert placed < started and outcome.position(1, before) < started
    assert not after or started < outcome.position(1, after)


def test_where_it_runs_as_planned_nothing_is_done(listed: Start, tmp_path: Path) -> None:
    outcome = deployed(tmp_path, [look(planned(**WANTED), NAMES[0])], listed)
    assert outcome.code == 0 and outcome.commands == [], outcome.text


def test_where_the_plan_has_it_no_more_it_goes(listed: Start, tmp_path: Path) -> None:
    outcome = deployed(tmp_path, [look(planned(**WANTED), NAMES[0])], listed, knobs={"monitoring": "off"})
    assert outcome.code == 0 and f"{BEACON}.service" in " ".join(removals(outcome)), outcome.text


def test_what_another_tandem_has_left_goes_and_nothing_else(listed: Start, tmp_path: Path) -> None:
    """Its line is gone, its unit is here: the plan has no word of it."""
    outcome = deployed(tmp_path, [look(planned(**WANTED), NAMES[0])], None)
    assert outcome.code == 0, outcome.text
    # What a double tells is as it was after each command: two steps find it.
    (gone,) = {*removals(outcome)}
    assert f"--quiet {BEACON}.service" in gone and f"rm -rf {unit_file(BEACON)}" in gone


@pytest.mark.parametrize("line", [True, False], ids=["listed", "left"])
def test_down_takes_it_before_what_serves(listed: Start, tmp_path: Path, line: bool) -> None:
    here = {unit: {"UnitFileState": "enabled"} for unit in (*registry.to_remove(), BEACON)}
    programs = {"unit.services": {"units": here, "strays": []}}
    state = look(planned(**WANTED), NAMES[0])
    outcome = deployed(tmp_path, [state], listed if line else None, file="operations/verbs/down.py", programs=programs)
    assert outcome.code == 0, outcome.text
    gone = [next(unit for unit in here if f"--quiet {unit}.service" in command) for command in removals(outcome)]
    assert sorted(gone) == sorted(here)
    assert gone.index(BEACON) < gone.index(PROXY) < gone.index(ENGINE) < gone.index(GUARD) < gone.index(FIREWALL)
    assert gone.index(CANARY) < gone.index(ENGINE)
    # With --all the rest of it goes with these folders.
    assert folder_of(BEACON).startswith(f"{ETC}/")


@pytest.mark.parametrize("line", [True, False], ids=["listed", "left"])
def test_status_tells_of_it_and_of_nothing_of_the_owner_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bool
) -> None:
    units, folders = tmp_path / "units", tmp_path / "folders"
    for name in ("beacon", "of-the-owner"):
        (units / f"tandem-{name}.service").parent.mkdir(exist_ok=True)
        (units / f"tandem-{name}.service").touch()
    (folders / "beacon").mkdir(parents=True)

    def systemctl(*argv: str) -> str:
        names = [each.removesuffix(".service") for each in argv if each.endswith(".service")]
        here = "ActiveState=active\nSubState=running\nUnitFileState=enabled\n"
        return "\n\n".join(here if (units / f"{name}.service").exists() else "UnitFileState=\n" for name in names)

    monkeypatch.setattr(services, "_UNIT_FILES", units)
    monkeypatch.setattr(services, "_FOLDERS", folders)
    monkeypatch.setattr(services, "output", lambda *argv: systemctl(*argv) if argv[0] == "systemctl" else "")
    monkeypatch.setattr(services, "docker_inspect", lambda *_: [])
    if line:
        monkeypatch.setattr(registry, "SERVICES", with_beacon("AT_END"))
    (row,) = status.main(list(registry.to_tell()))["rows"]
    assert row["unit"] == BEACON and row["state"] == "active (running)" and "why" not in row
