"""What owners set on this hardware: off unless they say so, by one unit, and refused where a GPU does not have it."""

from __future__ import annotations

from typing import Any

import pytest

from operations.plan.config.refusal import Refusal
from operations.plan.services.tuning import TUNING, kept_gib
from tests.plan.samples import knobs, plan, survey
from tests.plan.test_checks import findings


def script(**changes: Any) -> str:
    """What is set, without what takes it back."""
    program = plan(**changes).head.services[TUNING]
    text = next(file.content for file in program.files if file.path == "/etc/tandem/tuning/tuning.sh")
    return text.partition("set)")[2].partition("undo)")[0]


def test_nothing_is_set_unless_the_owner_says_so() -> None:
    assert not any(TUNING in each.services for each in plan().nodes)


def test_each_knob_sets_its_own_thing_and_no_other() -> None:
    said = {
        "--lock-gpu-clocks=0,2100": script(gpu_clock_mhz=2100),
        "swapoff --all": script(swap="off"),
        "keep_free 1048576": script(min_free_kbytes=1_048_576),
    }
    for words, text in said.items():
        assert [other for other in said if other in text] == [words]
    every = script(gpu_clock_mhz=2100, swap="off", min_free_kbytes=1_048_576)
    assert all(words in every for words in said)


def test_it_holds_over_boots_and_comes_before_the_first_engine() -> None:
    program = plan(gpu_clock_mhz=2100).head.services[TUNING]
    unit = next(file.content for file in program.files if file.path == "/etc/systemd/system/tandem-tuning.service")
    assert "\nProtectHome=" not in unit
    assert "WantedBy=multi-user.target" in unit and "Before=docker.service" in unit
    assert "After=nvidia-persistenced.service" in unit and "ExecStop=/etc/tandem/tuning/tuning.sh undo" in unit


def clocks(lowest: float | None, highest: float | None, gpus: int = 1) -> Any:
    return survey(clocks={"gpus": gpus, "lowest_mhz": lowest, "highest_mhz": highest})


@pytest.mark.parametrize(
    ("found", "mhz", "said"),
    [
        (clocks(208, 3003), 2100, ""),
        (clocks(208, 3003), 3003, ""),
        (clocks(208, 3003), 3004, "gpu_clock_mhz=3004: its GPU has 208 to 3003 MHz -> set it to one of these"),
        (clocks(208, 3003), 100, "gpu_clock_mhz=100: its GPU has 208 to 3003 MHz"),
        (clocks(None, 3003), 21_000, "gpu_clock_mhz=21000: its GPU has 3003 MHz at most"),
        # [N/A] of all: nobody can say that it is wrong.
        (clocks(None, None), 21_000, ""),
        (clocks(None, None, gpus=0), 2100, "gpu_clock_mhz=2100, and nvidia-smi tells of no GPU here -> set it to 0"),
        (clocks(208, 3003), 0, ""),
    ],
)
def test_a_clock_that_the_gpu_does_not_have_is_refused(found: Any, mhz: int, said: str) -> None:
    assert said in findings(found, gpu_clock_mhz=mhz)
    assert bool(said) == bool(findings(found, gpu_clock_mhz=mhz))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpu_clock_mhz": -1}, "gpu_clock_mhz=-1"),
        ({"swap": "on"}, "swap=on: expected one of: keep, off"),
        ({"min_free_kbytes": 1024}, "min_free_kbytes=1024: expected 0 (as the kernel has it), or 65536 to 8388608 kB"),
        ({"min_free_kbytes": 100_000_000}, "min_free_kbytes=100000000: expected 0"),
    ],
)
def test_what_can_t_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal) as caught:
        knobs(**changes)
    assert str(caught.value.findings[0].problem).startswith(said)


def test_what_the_kernel_is_to_keep_is_missed_at_the_start() -> None:
    memory = {"total_mib": 124_610, "available_mib": 104_000, "min_free_kib": 65_536}
    assert findings(survey(memory=memory)) == ""
    assert "has 95.7 GiB of memory available, vLLM wants 100.1" in findings(
        survey(memory=memory), min_free_kbytes=4_194_304
    )
    # What it keeps already is missed already.
    assert kept_gib(survey(memory=memory | {"min_free_kib": 4_194_304}), knobs(min_free_kbytes=4_194_304)) == 0
    assert kept_gib(survey(memory=memory), knobs()) == 0


def test_what_the_kernel_takes_under_a_running_engine_leaves_the_guard_s_floor() -> None:
    found = survey(
        memory={"total_mib": 124_610, "available_mib": 8_192, "min_free_kib": 65_536, "swapped_kib": 5 << 20}
    )
    found["state"]["services"]["units"]["tandem-engine"] = {"ActiveState": "active"}
    assert findings(found) == ""
    said = findings(found, min_free_kbytes=4_194_304)
    assert said.startswith(
        "min_free_kbytes and swap take 5.9 GiB beside the running engine, and leave 2.1; below 4 (memory_floor_gib) "
        "the guard kills it -> stop it first"
    )
    # What is swapped out comes back.
    assert "take 5.0 GiB" in findings(found, swap="off")
    assert findings(found, min_free_kbytes=1_048_576) == ""
