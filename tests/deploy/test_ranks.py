"""Stages from the command line, and a model that the nodes can't share: refused before anything is changed."""

from __future__ import annotations

from pathlib import Path

from tests.deploy.fake import as_planned, deploy, flags
from tests.plan.samples import plan

#: What the model's configuration says, by its files' key.
THREE = {plan().models[0].recipe.model.key: {"heads": 3, "layers": 2}}


def test_stages_are_taken_from_the_command_line_and_change_every_rank(tmp_path: Path) -> None:
    wanted = {"pipeline_parallel": "2"}
    outcome = deploy(tmp_path, as_planned(), "-y", *flags(**wanted), layout=THREE)
    assert outcome.code == 0, outcome.text
    for node in (1, 2):
        outcome.position(node, "systemctl stop tandem-engine.service")


def test_stages_that_are_deployed_stay_as_they_are(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, as_planned(pipeline_parallel=2), "-y", *flags(pipeline_parallel="2"))
    assert outcome.code == 0, outcome.text
    assert not [command for _, command in outcome.commands if "systemctl" in command]


def test_heads_that_the_nodes_can_t_share_stop_a_deploy_before_its_first_change(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, as_planned(), "-y", *flags(), layout=THREE)
    assert outcome.refused and outcome.commands == []
    assert "has 3 attention heads, which 2 nodes can't share (tensor-parallel size 2)" in outcome.text
    assert "set pipeline_parallel to 2, or take another number of nodes" in outcome.text


def test_a_wrong_number_on_the_command_line_is_one_line(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, as_planned(), "-y", *flags(pipeline_parallel="two"))
    assert outcome.refused and outcome.commands == []
    assert "pipeline_parallel='two'" in outcome.text and "Traceback" not in outcome.text
