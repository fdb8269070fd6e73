"""Plans that have served: kept whole, compared, gone back to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from operations.node import old_images, served
from operations.plan.formats import FOLDER, load_recipe
from operations.plan.history import previous, record, restore, title
from operations.plan.refusal import Refusal
from tests.plan.samples import knob_data, knobs


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.yaml")))
def test_every_recipe_comes_back_as_it_was(name: str) -> None:
    wanted, recipe = knobs(recipe=name), load_recipe(name)
    kept = json.loads(json.dumps(record(wanted, recipe)))
    assert restore(kept, {}) == (wanted, recipe)


def test_what_is_served_makes_the_plan_and_how_it_is_gone_back_from_does_not() -> None:
    recipe = load_recipe("lab-tiny-llama")
    one = record(knobs(), recipe)["id"]
    assert record(knobs(rollback="auto"), recipe)["id"] == one
    assert record(knobs(topology="solo"), recipe)["id"] != one
    assert record(knobs(), recipe.model_copy(update={"load_minutes": 5.0}))["id"] != one


def test_the_way_back_leads_to_the_newest_plan_that_is_not_the_declared_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "PLACE", tmp_path / "tandem/served.json")
    recipe = load_recipe("lab-tiny-llama")
    solo, cluster = record(knobs(topology="solo"), recipe), record(knobs(), recipe)
    assert served.main() == {"plans": []}
    assert previous([], solo["id"]) is None
    for plan in (solo, cluster, solo):
        plans = served.main(keep=plan)["plans"]
    assert [plan["id"] for plan in plans] == [cluster["id"], solo["id"]]
    assert served.newest() == solo["id"]
    back = previous(plans, solo["id"])
    assert back and back["id"] == cluster["id"]
    # A plan that never served is not among them: back is the one that serves.
    assert previous(plans, "another") == plans[-1]
    assert title(plans[-1]).startswith(f"{solo['knobs']['recipe']}, solo, which served on 2")
    assert (tmp_path / "tandem/served.json").stat().st_mode & 0o777 == 0o600


def test_no_more_than_five_are_kept_and_a_broken_file_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "PLACE", tmp_path / "served.json")
    for number in range(9):
        served.main(keep={"id": str(number), "knobs": {}, "recipe": {}, "images": [f"image-{number}"]})
    assert [plan["id"] for plan in served.main()["plans"]] == ["4", "5", "6", "7", "8"]
    assert served.images() == ["image-7", "image-8"]
    (tmp_path / "served.json").write_text("{not json")
    assert served.main() == {"plans": []}
    assert served.newest() == ""


def test_images_of_the_way_back_are_not_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "PLACE", tmp_path / "served.json")
    here = ["tandem/engine:" + digit * 12 for digit in "123"]
    monkeypatch.setattr(old_images, "output", lambda *argv, **_: "\n".join(here) if argv[1] == "images" else "")
    monkeypatch.setattr(old_images, "docker_inspect", lambda *_: [])
    served.main(keep={"id": "a", "knobs": {}, "recipe": {}, "images": [here[0]]})
    assert [image["name"] for image in old_images.main([here[1]])["images"]] == [here[2]]


def test_a_plan_of_a_tandem_that_knew_other_knobs() -> None:
    kept = json.loads(json.dumps(record(knobs(), load_recipe("lab-tiny-llama"))))
    del kept["knobs"]["canary_deadline"]
    kept["knobs"]["of_old"] = 1
    wanted, _ = restore(kept, knob_data(canary_deadline=7.0))
    assert wanted.canary_deadline == 7.0
    kept["recipe"]["engine"] = "another"
    with pytest.raises(Refusal, match=r"can't be read: engine"):
        restore(kept, knob_data())
