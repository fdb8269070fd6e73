"""Where kernels are kept, whose a node may have, and which are listed once their engines serve."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from operations.plan.cluster.served_model import ServedModel
from operations.plan.decide import kernels as decide
from operations.plan.decide.seen import Seen
from operations.plan.engines import ENGINES
from operations.plan.plan import Plan
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.recipe import flag
from operations.plan.services import kept_kernels
from tests.plan.samples import engine_of, knobs, make_plan, nodes, plan, survey

GB10, NEWER = "NVIDIA GB10 0x2e12, driver 580.95.05", "NVIDIA GB10 0x2e12, driver 590.44.01"
FIRST, SECOND = "spark-1", "spark-2"


def here(of: Plan, name: str = FIRST) -> ServedModel:
    [model] = of.on(name)
    return model


def place(**changes: Any) -> str:
    return kept_kernels.place_of(here(plan(**changes)))


def of_recipe(**changes: Any) -> str:
    wanted = knobs(topology="solo")
    recipe = load_recipe(wanted.recipe).model_copy(update=changes)
    return kept_kernels.place_of(here(make_plan(recipe, wanted, nodes(1, wanted))))


def test_the_place_is_by_image_revision_flags_and_ranks() -> None:
    recipe, usual = load_recipe(knobs().recipe), of_recipe()
    assert of_recipe(description="other words", load_minutes=3, served_name="x", known=("y",)) == usual
    further = flag("max-num-seqs", 3)
    others = [
        of_recipe(flags=(*recipe.flags, further)),
        of_recipe(env={**recipe.env, "A": "1"}),
        of_recipe(model=recipe.model.model_copy(update={"revision": "0" * 40})),
        of_recipe(image="vllm/vllm-openai:v0.32.0"),
        place(topology="cluster", executor="mp"),
        place(topology="cluster", executor="ray"),
    ]
    assert len({usual, *others}) == 1 + len(others)
    assert place(topology="replicas") == usual, "an engine by itself is the same, whatever stands beside it"


@pytest.mark.parametrize("topology", ["cluster", "replicas"])
def test_a_start_looks_at_the_folder_that_it_mounts(topology: str) -> None:
    of = plan(topology=topology, executor="mp")
    for each in of.serving:
        files = {file.path.rpartition("/")[2]: file.content for file in engine_of(each).files}
        [mounted] = re.findall(r"/var/lib/tandem/cache/(\S+):/root/.cache", files["run.sh"])
        assert mounted == kept_kernels.place_of(here(of, each.node.name))
        assert re.search(rf"made_for.py\" {mounted} tandem/engine:\w+ gpu", files["ready.sh"])
        assert {"made_for.py", "compiled.py", "content_id.py"} <= files.keys()


def test_what_serves_alone_for_a_cluster_has_a_place_of_its_own() -> None:
    of = plan(topology="cluster", executor="mp", fallback="solo")
    files = {file.path: file.content for each in of.serving for file in each.services["tandem-fallback"].files}
    [mounted] = re.findall(r"/var/lib/tandem/cache/(\S+):/root/.cache", files["/etc/tandem/fallback/run.sh"])
    node = of.of(FIRST).node
    own, alone = (kept_kernels.place_of(each) for each in kept_kernels.engines_on(here(of), node))
    assert own == kept_kernels.place_of(here(of)) and mounted == alone != own


@pytest.mark.parametrize("version", ["0.27.0", "0.31.0", None])
def test_nothing_that_ranks_must_have_alike_is_handed_on_in_a_cluster(version: str | None) -> None:
    tuned = "vllm/flashinfer_autotune_cache"
    for topology in ("solo", "cluster", "replicas"):
        wanted = knobs(topology=topology, executor="mp")
        recipe = load_recipe(wanted.recipe).model_copy(update={"engine_version": version})
        of = make_plan(recipe, wanted, nodes(1 if topology == "solo" else 2, wanted))
        paths = kept_kernels.paths_of(here(of))
        assert (tuned in paths) is (topology != "cluster"), "an engine by itself has nobody to wait for"
        assert ("vllm/startup_plan" in paths) is (topology != "cluster")
        assert {"flashinfer", "vllm/torch_compile_cache"} <= set(paths)
        assert "huggingface" not in paths, "a login may lie there"


def test_what_another_plan_begins_with_is_handed_on_too() -> None:
    for runs in ENGINES.values():
        assert all(each.is_compiled and each.ranks == "own" for each in runs.CACHES if each.by_name)


class Nodes:
    """What looks say of two nodes with one plan."""

    def __init__(self, **changes: Any) -> None:
        self.plan = plan(**{"topology": "replicas", **changes})
        self.image = here(self.plan).image.local
        self.place = kept_kernels.place_of(here(self.plan))
        self.looks = {name: self.look() for name in (FIRST, SECOND)}
        #: What an engine says that is asked.
        self.serves = False

    def look(self, content: str = "c", gpu: str = GB10) -> Any:
        found = survey()["state"]
        found["images"] = {self.image: {"image": {"id": "i", "content": content}, "replaced": False}}
        found["kernels"] = {"gpu": gpu, "cpu": "x86_64", "kept": {}}
        return found

    def keeps(self, name: str, content: str = "c", processor: str = GB10, proven: bool = True, place: str = "") -> None:
        kept = {"made": {"content": content, "processor": processor}, "proven": proven}
        self.looks[name]["kernels"]["kept"][place or self.place] = kept

    @property
    def seen(self) -> Seen:
        return Seen(self.plan, self.looks.__getitem__, lambda _model, _name: self.serves)

    def lacking(self, name: str = SECOND) -> decide.Lacking | None:
        return decide.lacking(self.seen, here(self.plan, name), name)


def test_a_node_without_kernels_has_those_of_one_that_has_them() -> None:
    both = Nodes()
    assert both.lacking() is None, "nobody has any"
    both.keeps(FIRST)
    assert both.lacking() == decide.Lacking(both.place, {"content": "c", "processor": GB10}, FIRST, begins=False)
    both.keeps(SECOND)
    assert both.lacking() is None and both.lacking(FIRST) is None, "what is there is not copied again"
    # The other way as well: the head was replaced.
    both.looks[FIRST] = both.look()
    assert (found := both.lacking(FIRST)) and found.source == SECOND


def test_kernels_of_another_image_processor_or_start_are_not_taken() -> None:
    changes: list[dict[str, Any]] = [{"content": "d"}, {"processor": NEWER}, {"proven": False}]
    for change in [*changes, {"place": "aaaaaaaaaaaa/bbbbbbbbbbbb"}]:
        both = Nodes()
        both.keeps(FIRST, **change)
        assert both.lacking() is None, change
    both = Nodes()
    both.looks[SECOND] = both.look(gpu=NEWER)
    both.keeps(FIRST)
    assert both.lacking() is None, "the second node's driver is another one"
    both.looks[SECOND] = both.look(gpu="")
    both.keeps(FIRST, processor="")
    assert both.lacking() is None, "nobody knows what is in it"


def test_a_node_that_was_updated_takes_what_is_made_for_its_driver() -> None:
    both = Nodes()
    for name in both.looks:
        both.looks[name] = both.look(gpu=NEWER)
    both.keeps(SECOND)
    both.keeps(FIRST, processor=NEWER)
    assert (found := both.lacking()) and found.source == FIRST


def test_a_plan_without_any_begins_with_its_own_nodes() -> None:
    both = Nodes()
    tag = both.place.partition("/")[0]
    both.keeps(SECOND, place=f"{tag}/000000000000", proven=False)
    assert both.lacking() is None, "a power cut may have cut them off"
    both.keeps(SECOND, place=f"{tag}/000000000000")
    assert (found := both.lacking()) and (found.source, found.begins) == ("", True)
    both.keeps(FIRST)
    assert (found := both.lacking()) and (found.source, found.begins) == (FIRST, True)
    both.looks[SECOND]["kernels"]["kept"] = {}
    both.keeps(SECOND, place=f"{tag}/000000000000", processor=NEWER)
    both.looks[FIRST]["kernels"]["kept"] = {}
    assert both.lacking() is None


def test_kernels_are_listed_once_and_again_after_another_start() -> None:
    both = Nodes()
    model = here(both.plan)

    def listed(*, started: bool) -> dict[str, list[str]]:
        return decide.to_list(both.seen, (model,), FIRST, lambda _model: started)

    assert listed(started=True) == {}, "no start has said for what they are"
    both.keeps(FIRST, proven=False)
    assert listed(started=False) == {both.place: kept_kernels.paths_of(model)}
    both.keeps(FIRST)
    assert listed(started=False) == {} and listed(started=True)


def test_without_a_gpu_it_is_the_processor_that_counts() -> None:
    both = Nodes()
    model = here(both.plan)
    recipe = model.recipe.model_copy(update={"needs": model.recipe.needs.model_copy(update={"gpu": False})})
    made = decide.made_for(both.looks[FIRST], replace(model, recipe=recipe))
    assert made == {"content": "c", "processor": "x86_64"}


def test_what_an_engine_on_demand_compiles_is_listed_only_while_it_serves() -> None:
    both = Nodes()
    model = replace(here(both.plan), idle_minutes=20.0)
    assert model.is_on_demand
    both.keeps(FIRST, proven=False)
    units = both.looks[FIRST]["services"]["units"]

    def listed(*, serves: bool, **unit: str) -> bool:
        units[model.unit], both.serves = unit, serves
        return bool(decide.to_list(both.seen, (model,), FIRST, lambda _model: False))

    assert not listed(serves=False, ActiveState="active", image="i"), "it loads"
    assert not listed(serves=True, ActiveState="inactive", image="i"), "it was ended, and nobody is asked in its place"
    assert not listed(serves=True, ActiveState="activating"), "it waits before its start"
    assert listed(serves=True, ActiveState="active", image="i")
