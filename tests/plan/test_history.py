"""Plans that have served: kept whole, compared, gone back to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from operations.node.image import origin
from operations.node.model import proof
from operations.node.unit import old_images, served
from operations.plan.config.files import render
from operations.plan.config.refusal import Refusal, Remark
from operations.plan.declared import Declared
from operations.plan.history import changed, declared, previous, record, restore, title, topology
from operations.plan.plan import Plan, check_topology
from operations.plan.recipes.formats import FOLDER, load_recipe
from operations.plan.recipes.images import by_content, engine_image, needed
from operations.plan.recipes.recipe import Recipe
from operations.plan.services import engine_service
from tests.plan.samples import knob_data, knobs, make_plan, nodes, plan
from tests.plan.samples import one as declared_one


def contents(of: Plan, content: str = "c1") -> dict[str, str]:
    """Every image of a plan is on the head."""
    return dict.fromkeys(needed(of.declared.pairs), content)


def kept(of: Plan, content: str = "c1") -> Any:
    """A plan as it is remembered, read back from its file."""
    read: Any = json.loads(json.dumps(record(of, contents(of, content))))
    return read


def of_old(of: Plan) -> Any:
    """A record as Tandem wrote it before it knew what images hold."""
    written = kept(of)
    return {**{key: written[key] for key in ("knobs", "recipe")}, "id": "of-old", "images": needed(of.declared.pairs)}


def recipe_of(of: Declared) -> Recipe:
    return of.first.recipe


def with_recipe(of: Plan, **changes: Any) -> Plan:
    """The plan, with a recipe of which something else is said."""
    recipe = recipe_of(of.declared).model_copy(update=changes)
    return replace(of, declared=declared_one(recipe, of.knobs))


def build_from(folder: Path) -> Plan:
    """A plan whose engine's image is built from a folder."""
    return plan(recipe="lab-tiny-llama", engine_image_from=f"build:{folder}")


def engine_name(of: Plan) -> str:
    """The local name of the engine's image."""
    return engine_image(*of.declared.first.pair).local


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.yaml")))
def test_every_recipe_comes_back_as_it_was(name: str) -> None:
    wanted, recipe = knobs(recipe=name, topology=load_recipe(name).topologies[0]), load_recipe(name)
    planned = make_plan(recipe, wanted, nodes(max(2, recipe.min_nodes), wanted))
    # On a head that has no image any more everything comes from its source again.
    assert restore(kept(planned), {}, {}) == declared_one(recipe, wanted)


def test_what_is_served_makes_the_plan_and_how_it_is_gone_back_from_does_not() -> None:
    one = kept(plan(recipe="lab-tiny-llama"))
    assert kept(plan(recipe="lab-tiny-llama", rollback="auto"))["id"] == one["id"]
    assert kept(plan(recipe="lab-tiny-llama", accept_risk=["CVE-2026-48746"]))["id"] == one["id"]
    assert kept(plan(recipe="lab-tiny-llama", topology="solo"))["id"] != one["id"]
    assert kept(plan(recipe="lab-tiny-llama"), "c2")["id"] != one["id"], "images by content"
    assert kept(plan(recipe="lab-tiny-llama"), "c2")["way"] != one["way"]


def test_a_remark_that_is_worded_otherwise_makes_no_other_plan() -> None:
    of = plan(recipe="lab-tiny-llama")
    first, two = (
        with_recipe(of, remarks=(Remark(False, words, "what to do"),)) for words in ("as it was", "worded anew")
    )
    old, new = kept(first), kept(two)
    assert (old["id"], old["way"]) == (new["id"], new["way"])
    assert previous([old], declared(two.declared, contents(two)), contents(two)) is None
    assert recipe_of(restore(old, {}, {})).remarks == recipe_of(first.declared).remarks, (
        "it comes back with what was said of it"
    )


@pytest.mark.parametrize(
    "told", [{"known": ("CVE-1 (below 0.18): a hole",)}, {"figures": ()}], ids=lambda told: next(iter(told))
)
def test_what_others_have_measured_or_found_since_makes_no_other_plan(told: Any) -> None:
    of = plan(topology="solo")
    newer = with_recipe(of, **told)
    assert kept(newer)["id"] == kept(of)["id"] and kept(newer)["way"] == kept(of)["way"]
    assert previous([kept(of)], declared(newer.declared, contents(newer)), contents(newer)) is None


def test_an_edited_dockerfile_is_another_plan_and_the_way_back_takes_the_image_that_served(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM one\n")
    one = build_from(tmp_path)
    served_once, there = kept(one), contents(one)
    # Computed from the files as they are: the name changes with them.
    name, proxy = engine_name(one), served_once["serves"]["proxy"]["local"]
    (tmp_path / "Dockerfile").write_text("FROM two\n")
    two = build_from(tmp_path)
    there |= {engine_name(two): "c2"}
    now = declared(two.declared, there)
    assert record(two, there)["id"] != served_once["id"]
    assert previous([served_once], now, there) == served_once
    back = restore(served_once, {}, there)
    image = engine_image(*back.first.pair)
    assert image.local == image.base.local == name
    # The plan that it becomes is the one that served.
    again = make_plan(recipe_of(back), back.knobs, nodes(2, back.knobs))
    assert record(again, there)["id"] == served_once["id"]
    assert changed(served_once, again) == []
    # Gone, and its source is another: refused. With the source put back: made again.
    there.pop(name)
    with pytest.raises(Refusal, match=r"is not on the head any more, and its source is not what it was"):
        restore(served_once, {}, there)
    (tmp_path / "Dockerfile").write_text("FROM one\n")
    assert recipe_of(restore(served_once, {}, there)).kept_images == {"proxy": proxy}
    (tmp_path / "Dockerfile").unlink()
    with pytest.raises(Refusal, match=r"is not on the head any more"):
        restore(served_once, {}, there)


def test_a_mod_that_was_edited_or_is_gone_is_not_asked_for_again(tmp_path: Path) -> None:
    mod = tmp_path / "mod"
    mod.mkdir()
    (mod / "run.sh").write_text("echo 1\n")
    wanted = knobs(recipe="lab-tiny-llama")
    recipe = load_recipe("lab-tiny-llama").model_copy(update={"mods": (str(mod),)})
    one = make_plan(recipe, wanted, nodes(2, wanted))
    served_once, there, name = kept(one), contents(one), engine_name(one)
    (mod / "run.sh").write_text("echo 2\n")
    now = declared(declared_one(recipe, wanted), there)
    assert previous([served_once], now, there) == served_once
    (mod / "run.sh").unlink()
    image = engine_image(*restore(served_once, {}, there).first.pair)
    assert image.local == name and image.mods == ()


def test_an_archive_that_was_replaced_is_gone_back_from_by_content() -> None:
    of = plan(recipe="lab-tiny-llama", engine_image_from="archive:/srv/engine.tar")
    local = engine_name(of)
    one, there = kept(of), contents(of)
    # The deploy that replaces it leaves what was there under the name of its content.
    there |= {local: "c2", by_content(local, "c1"): "c1"}
    two = json.loads(json.dumps(record(of, there)))
    assert by_content(local, "c1") in one["images"] and by_content(local, "c2") in two["images"]
    assert previous([one, two], declared(of.declared, there), there) == one
    assert recipe_of(restore(one, {}, there)).kept_images["engine"] == by_content(local, "c1")
    # Without that name nothing of it is left, and there is no way back to it.
    del there[by_content(local, "c1")]
    assert previous([one, two], declared(of.declared, there), there) is None
    with pytest.raises(Refusal, match=r"another one has its name"):
        restore(one, {}, there)


def test_files_that_tandem_renders_otherwise_now_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    one = kept(plan(recipe="lab-tiny-llama"))
    assert changed(one, plan(recipe="lab-tiny-llama")) == []
    as_it_was = render
    monkeypatch.setattr(
        engine_service,
        "render",
        lambda name, **of: as_it_was(name, **of) + ("# edited\n" if name == "engine/start.sh.j2" else ""),
    )
    edited = plan(recipe="lab-tiny-llama")
    assert changed(one, edited) == ["tandem-engine: start.sh"]
    two = kept(edited)
    assert two["id"] != one["id"], "another plan, as it is remembered"
    # Going back can't undo it: it is no other way.
    assert previous([one], declared(edited.declared, contents(edited)), contents(edited)) is None
    assert changed(of_old(edited), edited) == []


def test_a_record_of_an_older_tandem_is_read_by_the_names_of_its_images() -> None:
    cluster, solo = plan(recipe="lab-tiny-llama"), plan(recipe="lab-tiny-llama", topology="solo")
    there = contents(cluster)
    now = declared(cluster.declared, there)
    assert previous([of_old(solo), of_old(cluster)], now, there) == of_old(solo)
    back = restore(of_old(solo), {}, there)
    assert back.knobs == solo.knobs and engine_image(*back.first.pair).local == engine_name(solo)
    assert set(recipe_of(back).kept_images) == {"engine", "proxy"}


def test_the_way_back_leads_to_the_newest_plan_that_is_not_the_declared_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "PLACE", tmp_path / "tandem/served.json")
    monkeypatch.setattr(proof, "PROVEN", tmp_path / "proven")
    in_solo, in_cluster = (plan(recipe="lab-tiny-llama", topology=each) for each in ("solo", "cluster"))
    solo, cluster, there = kept(in_solo), kept(in_cluster), contents(in_cluster)
    now = declared(in_solo.declared, there)
    assert served.main() == {"plans": []}
    assert previous([], now, there) is None
    for each in (solo, cluster, solo):
        plans = served.main(keep=each)["plans"]
    assert [each["id"] for each in plans] == [cluster["id"], solo["id"]]
    assert served.newest() == solo["id"]
    back = previous(plans, now, there)
    assert back and back["id"] == cluster["id"]
    # A plan that can't even be read never served: back is the one that serves.
    assert previous(plans, None, there) == plans[-1]
    assert title(plans[-1]).startswith(f"{solo['knobs']['recipe']}, solo, which served on 2")
    assert (tmp_path / "tandem/served.json").stat().st_mode & 0o777 == 0o600


def test_what_a_rollback_can_t_tell_apart_is_remembered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "PLACE", tmp_path / "served.json")
    monkeypatch.setattr(proof, "PROVEN", tmp_path / "proven")
    monkeypatch.setattr(origin, "image_states", lambda names: {names[0]: {"content": "c1"}})
    of = plan(recipe="lab-tiny-llama")
    served.main(keep=kept(of) | {"images": ["with-mods", "base"]})
    served.main(keep=kept(of) | {"id": "with other files", "images": ["with-mods"]})
    told = served.main(archives={"another": ""})
    assert [(each["id"], each["images"]) for each in told["plans"]] == [("with other files", ["with-mods", "base"])]
    assert {name: bool(state["image"]) for name, state in told["images"].items()} == {
        "with-mods": True,
        "base": False,
        "another": False,
    }


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
    of_another = kept(plan(recipe="lab-tiny-llama"))
    del of_another["knobs"]["canary_deadline"]
    of_another["knobs"]["of_old"] = 1
    assert restore(of_another, knob_data(canary_deadline=7.0), {}).knobs.canary_deadline == 7.0
    of_another["recipe"]["engine"] = "another"
    with pytest.raises(Refusal, match=r"can't be read: engine"):
        restore(of_another, knob_data(), {})


def test_a_plan_of_a_tandem_without_stages_had_one() -> None:
    older = kept(plan(topology="replicas", recipe="lab-tiny-llama"))
    del older["knobs"]["pipeline_parallel"], older["recipe"]["pipeline_parallel"]
    back = restore(older, knob_data(pipeline_parallel=2), {})
    assert (back.knobs.pipeline_parallel, recipe_of(back).pipeline_parallel) == (1, 1)
    check_topology(back, ["spark-1", "spark-2"])


def test_a_record_that_can_t_be_read_does_not_block_the_way_back_to_an_older_one() -> None:
    solo, cluster = kept(plan(recipe="lab-tiny-llama", topology="solo")), plan(recipe="lab-tiny-llama")
    there, of_another = contents(cluster), kept(plan(recipe="lab-tiny-llama", topology="replicas"))
    of_another["recipe"]["engine"] = "another"
    now = declared(cluster.declared, there)
    for wanted in (now, None):
        back = previous([solo, of_another], wanted, there)
        assert back and back["id"] == solo["id"]
        assert title(back).endswith(f"(passed over, as it can't be read: {title(of_another)})")
        assert restore(back, {}, there).knobs.topology == "solo"
    assert "passed over" not in title(solo)
    # With no other one left it is told what is wrong with it.
    back = previous([of_another, kept(cluster)], now, there)
    assert back == of_another
    with pytest.raises(Refusal, match=r"can't be read: engine"):
        restore(of_another, {}, there)
    # A knob that it did not know yet makes no plan unreadable.
    del solo["knobs"]["canary_deadline"]
    older = kept(plan(recipe="lab-tiny-llama", topology="replicas"))
    assert previous([older, solo], None, there) == previous([older, solo], now, there) == solo


@pytest.mark.parametrize("shape", ["solo", "cluster", "replicas"])
def test_a_record_says_how_its_nodes_depend_on_each_other(shape: str) -> None:
    assert topology(kept(plan(recipe="lab-tiny-llama", topology=shape)), "spark-1") == shape


def test_the_record_of_several_models_says_whether_all_lie_on_the_head() -> None:
    several = kept(plan(recipe="lab-tiny-llama")) | {"recipes": {"chat": {}, "coder": {}}}
    units: Any = {"tandem-engine-chat": {"files": {}}}
    assert (
        topology(several | {"services": {"spark-1": units, "spark-2": {"fabric": {"files": {}}}}}, "spark-1") == "solo"
    )
    assert topology(several | {"services": {"spark-1": units, "spark-2": units}}, "spark-1") == "replicas"
    assert topology(several | {"services": {}}, "spark-1") == ""
