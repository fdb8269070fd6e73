"""The engine's image is started once with its own flags, before anything is fetched, and not again on that node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from operations.plan.services.engine_service import gpu_trial
from tests.deploy.fake import NAMES, OFF, deploy, fresh, look, planned
from tests.plan.samples import survey

PLAN = planned()
LOCAL = PLAN.models[0].image.local
TOLD = {"problem": "", "remedy": "", "remark": ""}
BLIND = TOLD | {"problem": "the engine's image does not start with the GPU: could not select", "remedy": "sudo nvidia"}


def test_an_image_that_does_not_find_the_gpu_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    states = [fresh(PLAN, name) for name in NAMES]
    by_node = {NAMES[1]: {"image.gpu_trial": {LOCAL: BLIND}}}
    outcome = deploy(tmp_path, states, "-y", by_node=by_node)
    assert outcome.refused and outcome.commands == []
    assert f"{NAMES[1]}  the engine's image does not start with the GPU" in outcome.text
    assert "sudo nvidia" in outcome.text and "Traceback" not in outcome.text


def test_what_has_seen_it_as_the_node_is_now_is_not_tried_again(tmp_path: Path) -> None:
    """The program that would try is one that can't be run: it is not asked."""
    states, model, said = [look(PLAN, name) for name in NAMES], PLAN.models[0], survey()
    flags = gpu_trial(model, PLAN.head.node)
    by = {"flags": flags, "driver": said["nvidia"], "software": said["software"]}
    failing = {name: ["image.gpu_trial"] for name in NAMES}
    outcome = deploy(tmp_path, states, "-y", failing=failing, saw_gpu={LOCAL: by})
    assert outcome.code == 0 and outcome.commands == [], outcome.text
    # With another driver it is.
    older = {LOCAL: by | {"driver": "570.1"}}
    assert deploy(tmp_path, states, "-y", failing=failing, saw_gpu=older).code == 1


def test_what_is_not_there_yet_is_tried_when_it_has_come_and_no_model_is_fetched(tmp_path: Path) -> None:
    states: list[Any] = [fresh(PLAN, name) for name in NAMES]
    # First it is not here; the program's second answer is the step's.
    code = (
        "import operations.runner.seeing as _seeing\n"
        "_asked = []\n"
        "def _ask(host, program, *arguments, **named):\n"
        "    _asked.append(host.name)\n"
        f"    return {{}} if _asked.count(host.name) == 1 else {{{LOCAL!r}: {BLIND!r}}}\n"
        "_seeing.ask = _ask\n"
    )
    outcome = deploy(tmp_path, states, "-y", inventory=code)
    assert outcome.refused
    assert "no model was fetched" in outcome.text and "could not select" in outcome.text
    assert "[gpu-unseen-in-container]" in outcome.text
    assert not [command for _, command in outcome.commands if "start" in command and "tandem-engine" in command]


@pytest.mark.parametrize("changes", [{"gpu": [["the driver hangs", "reboot"]]}, {"nvidia": ""}], ids=str)
def test_where_the_gpu_is_known_not_to_work_nothing_is_started(tmp_path: Path, changes: Any) -> None:
    failing = {name: ["image.gpu_trial"] for name in NAMES}
    outcome = deploy(tmp_path, [fresh(PLAN, name) for name in NAMES], "-y", failing=failing, **changes)
    assert outcome.refused and "nothing was changed" in outcome.text
    assert "sudo: no" not in outcome.text


def test_a_node_that_is_off_and_not_needed_is_not_asked(tmp_path: Path) -> None:
    plan = planned(topology="solo")
    outcome = deploy(tmp_path, [look(plan, NAMES[0]), OFF], "-y", "--data", "topology=solo")
    assert outcome.code == 0, outcome.text


def test_a_toolkit_that_froze_somebodys_spark_is_a_remark(tmp_path: Path) -> None:
    software = survey()["software"] | {"nvidia-container-toolkit": "1.19.1"}
    states = [look(PLAN, name) for name in NAMES]
    outcome = deploy(tmp_path, states, "--dry", cdi=True, software=software)
    assert outcome.code == 0 and "toolkit 1.19.1 a Spark froze under heavy loads" in outcome.text
    assert "froze" not in deploy(tmp_path, states, "--dry", cdi=True).text
