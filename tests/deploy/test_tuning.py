"""The GPU's clock, in whole deploys: set once, changed with the script that has set it, taken back and removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from operations.plan.services.tuning import TUNING
from tests.deploy.fake import Outcome, as_planned, deploy, flags

SET = f"systemctl restart {TUNING}.service"
STOP = f"systemctl stop {TUNING}.service"
CLOCKS = {"gpus": 1, "lowest_mhz": 208.0, "highest_mhz": 3003.0}


def deployed(tmp_path: Path, before: dict[str, Any], after: dict[str, Any], **surveys: Any) -> Outcome:
    """A deploy of `after` on nodes that are as a plan of `before` wants them."""
    return deploy(
        tmp_path, as_planned(topology="cluster", **before), "-y", *flags(topology="cluster", **after), **surveys
    )


def ran(outcome: Outcome) -> list[str]:
    return [command for _, command in outcome.commands if TUNING in command or "/tuning/" in command]


def test_it_is_set_on_each_node_before_engines_start_and_once(tmp_path: Path) -> None:
    outcome = deployed(tmp_path, {}, {"gpu_clock_mhz": 2100}, clocks=CLOCKS)
    assert outcome.code == 0, outcome.text
    for node in (1, 2):
        assert outcome.position(node, "tuning.sh") < outcome.position(node, SET)
    (tmp_path / "again").mkdir()
    again = deployed(tmp_path / "again", {"gpu_clock_mhz": 2100}, {"gpu_clock_mhz": 2100}, clocks=CLOCKS)
    assert again.code == 0 and ran(again) == []


def test_another_clock_is_set_when_the_script_of_before_has_taken_back_its_own(tmp_path: Path) -> None:
    outcome = deployed(tmp_path, {"gpu_clock_mhz": 2100}, {"gpu_clock_mhz": 2000}, clocks=CLOCKS)
    assert outcome.code == 0, outcome.text
    for node in (1, 2):
        positions = [outcome.position(node, each) for each in (STOP, "tuning.sh", SET)]
        assert positions == sorted(positions)


def test_what_is_off_is_taken_back_and_removed(tmp_path: Path) -> None:
    outcome = deployed(tmp_path, {"gpu_clock_mhz": 2100}, {})
    assert outcome.code == 0, outcome.text
    for node in (1, 2):
        outcome.position(node, f"systemctl --no-reload disable --now --quiet {TUNING}.service")


def test_a_clock_that_no_gpu_has_changes_nothing(tmp_path: Path) -> None:
    outcome = deployed(tmp_path, {}, {"gpu_clock_mhz": 21_000}, clocks=CLOCKS)
    assert outcome.code != 0 and not outcome.commands
    assert "gpu_clock_mhz=21000: its GPU has 208 to 3003 MHz" in outcome.text
