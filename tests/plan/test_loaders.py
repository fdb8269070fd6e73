"""How weights are loaded: what the knob names, what `auto` may take, and the program that chooses in the container."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from operations.plan.config.refusal import Refusal
from operations.plan.engines import ENGINES, loaders, starts
from operations.plan.plan import Plan
from operations.plan.wanted import wanted
from tests.node.shipped import part
from tests.plan.samples import engine_of, knob_data, make_plan, nodes, plan

VLLM = ENGINES["vllm"]
SOLO: dict[str, Any] = {"recipe": "gpt-oss-120b-mxfp4", "topology": "solo"}


def planned(count: int = 1, **changes: Any) -> Plan:
    """The plan of what the knobs say, as a deploy reads them."""
    found = wanted(knob_data(**changes)).first
    return make_plan(found.recipe, found.knobs, nodes(count, found.knobs))


def files(of: Plan) -> dict[str, str]:
    return {Path(each.path).name: each.content for each in engine_of(of.nodes[0]).files}


def test_no_loader_is_chosen_unless_the_owner_wants_it() -> None:
    found = files(planned(**SOLO))
    assert "load-format" not in found["start.sh"] and "loader.json" not in found
    assert "TANDEM_LOADER_FAILED" not in found["run.sh"]


@pytest.mark.parametrize("name", list(VLLM.LOADERS))
def test_a_loader_that_is_named_is_the_engine_s_own_flag(name: str) -> None:
    found = files(planned(**SOLO, loader=name))
    assert " ".join(VLLM.LOADERS[name].flags) in found["start.sh"] and "loader.json" not in found


def test_a_recipe_s_own_word_counts_before_the_knob() -> None:
    recipe: dict[str, Any] = {"recipe": "qwen3.6-35b-a3b-nvfp4-mtp", "topology": "solo"}
    for name in ("instanttensor", "auto", "eager"):
        found = files(planned(**recipe, loader=name))
        assert found["start.sh"].count("--load-format") == 1 and "--load-format fastsafetensors" in found["start.sh"]
        assert "loader.json" not in found


def choices(of: Plan) -> list[str]:
    return [each["name"] for each in json.loads(files(of).get("loader.json", "[]"))]


def test_auto_chooses_in_the_container_and_run_sh_tells_it_what_has_failed() -> None:
    of = planned(**SOLO, loader="auto")
    found = files(of)
    assert choices(of) == ["instanttensor", "fastsafetensors"]
    assert "exec python3 /tandem/loader.py vllm serve " in found["start.sh"]
    assert "starts.py failed) ||" in found["run.sh"] and "--env TANDEM_LOADER_FAILED " in found["run.sh"]


def test_auto_keeps_to_what_nobody_has_seen_to_fail() -> None:
    # Over several nodes both went wrong, and each rank would choose by itself.
    assert choices(planned(2, recipe="gpt-oss-120b-mxfp4", topology="cluster", loader="auto")) == []
    # A release before it came, and one that asks for more than an older package has.
    assert choices(planned(recipe="nemotron-3-super-nvfp4-marlin", topology="solo", loader="auto")) == [
        "fastsafetensors"
    ]
    demanded = json.loads(files(planned(**SOLO, loader="auto"))["loader.json"])[0]["at_least"]
    assert demanded == "0.1.9"
    assert choices(planned(recipe="gemma4-26b-a4b-fp8", topology="solo", loader="auto")) == ["instanttensor"]
    # Without a GPU there is nothing to load to.
    assert choices(planned(recipe="lab-tiny-llama", topology="solo", loader="auto")) == []


@pytest.mark.parametrize(
    ("changes", "problem", "remedy"),
    [
        (
            {"recipe": "nemotron-3-super-nvfp4-trtllm", "loader": "fastsafetensors", "topology": "solo"},
            "loader=fastsafetensors: TensorRT-LLM of the recipe nemotron-3-super-nvfp4-trtllm has no such loader",
            "choose one of: auto, engine",
        ),
        (
            {"recipe": "nemotron-3-super-nvfp4-marlin", "loader": "instanttensor", "topology": "solo"},
            "loader=instanttensor: vLLM 0.17.1 of the recipe nemotron-3-super-nvfp4-marlin has it from 0.19.0 on",
            "take loader=engine",
        ),
        ({"loader": "fast"}, "loader", "instanttensor"),
    ],
    ids=["another engine's", "a newer release's", "nobody's"],
)
def test_a_loader_that_is_not_there_is_refused_before_anything_is_changed(
    changes: dict[str, Any], problem: str, remedy: str
) -> None:
    with pytest.raises(Refusal) as refused:
        wanted(knob_data(**changes))
    assert problem in str(refused.value) and remedy in str(refused.value)


def test_every_loader_says_who_has_seen_it_and_every_pattern_is_one() -> None:
    for engine in ENGINES.values():
        for name, each in engine.LOADERS.items():
            assert each.source and each.flags and re.compile(each.fault) and re.compile(each.unsafe), name
            assert not each.is_chosen or (each.package and each.fault), name
        for mark in engine.STARTS:
            assert re.compile(mark.pattern)


def test_how_a_start_is_seen_starts_no_engine_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    before = engine_of(plan(2, topology="cluster").nodes[0]).spec
    monkeypatch.setattr(VLLM, "STARTS", (), raising=False)
    assert engine_of(plan(2, topology="cluster").nodes[0]).spec == before


WANTED: Any = [
    {
        "name": "instanttensor",
        "package": "instanttensor",
        "at_least": "0.1.9",
        "flags": ["--load-format", "instanttensor"],
    },
    {
        "name": "fastsafetensors",
        "package": "fastsafetensors",
        "at_least": "",
        "flags": ["--load-format", "fastsafetensors"],
    },
]


@pytest.mark.parametrize(
    ("has", "failed", "flag", "says"),
    [
        ({"instanttensor": "0.1.9", "fastsafetensors": "0.1.15"}, "", "instanttensor", "instanttensor 0.1.9, which"),
        (
            {"instanttensor": "0.1.8", "fastsafetensors": "0.1.15"},
            "",
            "fastsafetensors",
            "fastsafetensors 0.1.15, which",
        ),
        ({"instanttensor": "0.1.10"}, "", "instanttensor", "instanttensor 0.1.10"),
        ({"instanttensor": "0.1.9+cu130"}, "", "instanttensor", "instanttensor 0.1.9+cu130"),
        ({}, "", "", "engine, its own way: the image has no instanttensor, no fastsafetensors"),
        ({"instanttensor": "0.1.8"}, "", "", "instanttensor 0.1.8 is older than 0.1.9, no fastsafetensors"),
        ({"fastsafetensors": "1"}, "fastsafetensors failed on Monday: x", "", "its own way: fastsafetensors failed on"),
    ],
)
def test_the_first_that_the_image_has_is_taken(has: dict[str, str], failed: str, flag: str, says: str) -> None:
    flags, said = part("engine", "loader").chosen(WANTED, failed, has)
    assert flags == (["--load-format", flag] if flag else []) and says in said and said.startswith(starts.LOADS_BY)


@pytest.mark.parametrize("failed", ["", "packaging failed"])
def test_the_program_becomes_the_command_with_the_flags(tmp_path: Path, failed: str) -> None:
    """With a package that the tests' own Python has, in place of a loader."""
    (tmp_path / "loader.py").write_text((Path(__file__).parents[2] / "files/engine/loader.py").read_text())
    choice = {"name": "x", "package": "packaging", "at_least": "20", "flags": ["--load-format", "x"]}
    (tmp_path / "loader.json").write_text(json.dumps([choice]))
    engine = tmp_path / "engine"
    engine.write_text(f"#!{sys.executable}\nimport sys; print(sys.argv[1:])\n")
    engine.chmod(0o755)
    env = {**os.environ, "TANDEM_LOADER_FAILED": failed}
    argv = [sys.executable, str(tmp_path / "loader.py"), str(engine), "serve", "a b"]
    told = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(["serve", "a b"] + ([] if failed else ["--load-format", "x"]))
    assert told.stderr.startswith("tandem: the weights are loaded by " + ("engine" if failed else "x "))


def test_a_start_may_take_twice_what_the_longest_of_the_last_ones_took() -> None:
    assert starts.patience_s(18, ["s"], [{}]) == 18 * 60
    assert starts.patience_s(4, ["s", "s"], [{"s": 300.0}, {"s": 400.0, "other": 9000.0}]) == 800
    # It is longer than the recipe's where starts have taken longer, and two minutes at least.
    assert starts.patience_s(4, ["s"], [{"s": 600.0}]) == 1200
    assert starts.patience_s(4, ["s"], [{"s": 9.0}]) == 240


@pytest.mark.parametrize(
    ("free", "names"), [(80, ["instanttensor", "fastsafetensors"]), (73, ["instanttensor"]), (66, [])]
)
def test_auto_leaves_out_what_has_no_room_beside_the_weights(free: float, names: list[str]) -> None:
    found = wanted(knob_data(**SOLO, loader="auto")).first
    recipe = found.recipe
    assert recipe.weights_gib and 57 < recipe.weights_gib < 64
    told = loaders.choices(recipe, found.knobs, VLLM.LOADERS, VLLM.LOADS, free)
    assert [each["name"] for each in told] == names


@pytest.mark.parametrize("unknown", ["model", "draft"])
def test_auto_leaves_out_what_wants_room_where_nobody_says_what_the_weights_take(unknown: str) -> None:
    found = wanted(knob_data(**SOLO, loader="auto")).first

    def taken(**gib: float | None) -> list[str]:
        model, draft = (
            found.recipe.model.model_copy(update={"weights_gib": gib.get(each, 10.0)}) for each in ("model", "draft")
        )
        recipe = found.recipe.model_copy(update={"model": model, "further_models": (draft,)})
        return [each["name"] for each in loaders.choices(recipe, found.knobs, VLLM.LOADERS, VLLM.LOADS, 90)]

    assert taken() == ["instanttensor", "fastsafetensors"]
    assert taken(**{unknown: None}) == []


def test_who_serves_alone_for_a_cluster_takes_the_engine_s_own_way() -> None:
    of = planned(2, recipe="gpt-oss-120b-mxfp4", topology="cluster", executor="mp", fallback="solo", loader="auto")
    lying = {file.path: file.content for each in of.serving for file in each.services["tandem-fallback"].files}
    assert "/etc/tandem/fallback/start.sh" in lying and "/etc/tandem/fallback/loader.json" not in lying
    assert "loader.py" not in lying["/etc/tandem/fallback/start.sh"]
    assert "starts.py failed" not in lying["/etc/tandem/fallback/run.sh"]
