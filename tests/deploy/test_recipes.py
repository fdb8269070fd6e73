"""What a deploy refuses of a recipe: words, revisions, mods, memory, topology."""

from __future__ import annotations

import json
from pathlib import Path

from tests.deploy.fake import as_planned, deploy, flags, planned
from tests.deploy.foreign import FOREIGN, foreign
from tests.plan.samples import ROOT


def test_a_recipe_that_its_image_does_not_understand_is_refused_with_all_its_faults(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    shipped = (ROOT / "files/recipes/nemotron-3-super-nvfp4-marlin.yaml").read_text()
    wrong = shipped.replace("moe-backend: marlin", "moe-backend: marlinn").replace("nemotron_v3", "super_v3")
    recipe.write_text(wrong.replace("  VLLM_MARLIN_USE", "  VLLM_NVFP4_MOE_BACKEND: marlin\n  VLLM_MARLIN_USE"))
    outcome = deploy(tmp_path, as_planned(topology="cluster"), "-y", *flags(recipe=str(recipe)))
    assert outcome.refused
    for said in ("reads no `VLLM_NVFP4_MOE_BACKEND`", "knows no `marlinn`", "`super_v3` is in no release"):
        assert said in outcome.text
    assert outcome.commands == []


def test_a_recipe_without_a_revision_is_refused_with_today_s(tmp_path: Path) -> None:
    data = flags(topology="solo", recipe=foreign(tmp_path))
    outcome = deploy(tmp_path, as_planned(topology="solo"), "-y", *data, main={"org/model": "d" * 40})
    assert outcome.refused and outcome.commands == [] and "Traceback" not in outcome.text
    assert "names no revision of org/model" in outcome.text
    assert f'model_revision = "{"d" * 40}" in group_data/all.py is what `main` is' in outcome.text


def test_a_recipe_of_eugr_s_is_deployed_with_a_revision(tmp_path: Path) -> None:
    changes = {"topology": "solo", "recipe": foreign(tmp_path), "model_revision": "d" * 40}
    outcome = deploy(tmp_path, as_planned(**changes), "-y", *flags(**changes))
    assert outcome.code == 0, outcome.text
    assert outcome.commands == []
    assert "the image `vllm-node` is not pinned by a digest" in outcome.text


def test_a_revision_of_a_recipe_that_has_its_own_is_refused(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, as_planned(topology="solo"), "-y", *flags(topology="solo", model_revision="d" * 40))
    assert outcome.refused and "has its own" in outcome.text and "clear model_revision" in outcome.text


def test_a_mod_that_is_not_here_is_refused(tmp_path: Path) -> None:
    data = flags(topology="solo", recipe=foreign(tmp_path, "mods: [mods/fix-it]\n"), model_revision="d" * 40)
    outcome = deploy(tmp_path, as_planned(topology="solo"), "-y", *data)
    assert outcome.refused and outcome.commands == []
    assert "the mod `mods/fix-it` is not here" in outcome.text


def test_what_the_image_has_told_before_is_what_counts(tmp_path: Path) -> None:
    image = planned(topology="solo").models[0].image.local
    told = {image: {"version": "0.17.1", "flags": {"dtype": {"choices": None}}}}
    outcome = deploy(tmp_path, as_planned(topology="solo"), "-y", *flags(topology="solo"), vocabulary=told)
    assert outcome.refused and outcome.commands == []
    assert "vLLM 0.17.1 (the image) has no flag `--trust-remote-code`" in outcome.text


def test_weights_that_are_in_the_store_are_held_against_the_memory(tmp_path: Path) -> None:
    changes = {"topology": "solo", "recipe": foreign(tmp_path), "model_revision": "d" * 40}
    states = as_planned(**changes)
    (only,) = states[0]["models"].values()
    only["files"] = {"model-1.safetensors": {"size": 150 << 30, "blob": "b"}}
    outcome = deploy(tmp_path, states, "-y", *flags(**changes))
    assert outcome.refused and outcome.commands == []
    assert "150 GiB of weights on each node do not fit a GB10's 119 GiB" in outcome.text


def test_tensorrt_llm_in_a_cluster_is_refused(tmp_path: Path) -> None:
    data = flags(topology="cluster", recipe="nemotron-3-super-nvfp4-trtllm")
    outcome = deploy(tmp_path, as_planned(topology="solo"), "-y", *data)
    assert outcome.refused and "runs in: solo, replicas" in outcome.text


def test_a_draft_without_a_revision_is_refused_with_the_knob_that_pins_it(tmp_path: Path) -> None:
    file = tmp_path / "drafting.yaml"
    file.write_text(FOREIGN.replace("vllm serve org/model", "vllm serve org/model --spec-model org/draft"))
    changes = {"topology": "solo", "recipe": str(file), "model_revision": "d" * 40}
    outcome = deploy(tmp_path, as_planned(**changes), "-y", *flags(**changes), main={"org/draft": "e" * 40})
    assert outcome.refused and outcome.commands == [] and "Traceback" not in outcome.text
    assert "names no revision of org/draft" in outcome.text
    pin = json.dumps({"org/draft": "e" * 40})
    assert f"model_revisions = {pin} in group_data/all.py is what `main` is" in outcome.text
    pinned = [*flags(**changes), "--data", f"model_revisions={pin}"]
    as_it_is = as_planned(**changes, model_revisions={"org/draft": "e" * 40})
    done = deploy(tmp_path, as_it_is, "-y", *pinned)
    assert done.code == 0 and done.commands == [], done.text
