"""What is known before the first byte is fetched: the GPU's flags, who is in its way, the store, the login's way in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from operations.plan.checks import check_survey
from operations.plan.recipes.formats import load_recipe
from operations.plan.services.engine_service import gpu_exports, gpu_trial
from tests.plan.samples import engine_of, knobs, make_plan, nodes, plan, survey
from tests.plan.test_checks import findings, models

CDI, HOOK = "--device nvidia.com/gpu=all", "--gpus all"


@pytest.mark.parametrize(("cdi", "flags", "other"), [(True, CDI, HOOK), (False, HOOK, CDI)])
def test_the_gpu_is_given_by_what_works_on_the_node(cdi: bool, flags: str, other: str) -> None:
    wanted = knobs(topology="replicas")
    on = [replace(nodes(2, wanted)[0], cdi=cdi), nodes(2, wanted)[1]]
    planned = make_plan(load_recipe(wanted.recipe), wanted, on)
    files = {file.path.rpartition("/")[2]: file.content for file in engine_of(planned.head).files}
    assert f" {flags} " in files["run.sh"] and other not in files["run.sh"]
    assert ("wait_while gpu_is_not_specified" in files["ready.sh"]) == cdi
    model = planned.models[0]
    trial = gpu_trial(model, on[0])
    assert flags in " ".join(trial) and "--cgroup-parent" in trial
    # All of it is what the engine gets, word by word.
    assert set(trial) <= set(files["run.sh"].split())


def test_a_recipes_word_on_the_driver_is_tried_too() -> None:
    wanted = knobs(topology="solo")
    recipe = load_recipe(wanted.recipe)
    recipe = recipe.model_copy(update={"env": {"NVIDIA_DRIVER_CAPABILITIES": "compute", "VLLM_LOGGING_LEVEL": "INFO"}})
    planned = make_plan(recipe, wanted, nodes(1, wanted))
    trial = gpu_trial(planned.models[0], planned.head.node)
    assert trial[-2:] == ["--env", "NVIDIA_DRIVER_CAPABILITIES=compute"]
    assert not [word for word in trial if "LOGGING" in word]


def test_an_engine_without_a_gpu_waits_for_none() -> None:
    files = engine_of(plan(1, topology="solo", recipe="lab-tiny-llama").head).files
    assert not [file for file in files if file.path.endswith("on_gpu.py")]
    assert "gpu_is" not in next(file.content for file in files if file.path.endswith("ready.sh"))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (survey(gpu=[["nvidia-smi ends with 18 (x): the driver was updated", "reboot it"]]), "updated -> reboot it"),
        (survey(strangers=[["another program computes on the GPU: comfyui", "end it"]]), "GPU: comfyui -> end it"),
        (
            survey(unwritable="/home/spark/.cache/huggingface"),
            "/home/spark/.cache/huggingface is not the login's, so it can't make the model store "
            '~/.cache/huggingface/hub there -> sudo chown -R "$USER": /home/spark/.cache/huggingface',
        ),
        (
            survey(came_in_by="enp1s0f0np0"),
            "the login goes to 10.0.0.11, an address of the rail `enp1s0f0np0`: a deploy sets those anew -> name its "
            "address in the office's network: `ssh_hostname` in inventory.py",
        ),
    ],
    ids=["driver", "taken", "store", "way in"],
)
def test_what_would_end_a_first_deploy_is_one_line_with_its_remedy(found: Any, said: str) -> None:
    assert findings(found).splitlines() == [line for line in findings(found).splitlines() if said in line]
    assert said in findings(found)


def test_a_store_elsewhere_is_made_by_its_owner() -> None:
    found = survey(unwritable="/data")
    found["disks"]["store"]["path"] = "/data/hub"
    assert '-> sudo mkdir -p /data/hub && sudo chown "$USER": /data/hub' in findings(found, model_store="/data/hub")


@pytest.mark.parametrize(("management", "clashes"), [("192.168.177.40", True), ("spark-1", False), ("fe80::1", False)])
def test_the_office_has_no_address_of_the_rails(management: str, clashes: bool) -> None:
    wanted = knobs()
    node = replace(nodes(2, wanted)[0], management=management)
    said = check_survey(node, survey(), survey(), models(wanted, 2), wanted, 2)
    assert bool([each for each in said if "which is in `fabric_subnets`" in each.problem]) == clashes


@pytest.mark.parametrize(("device", "clashes"), [("enP7s7", True), ("enP2p1s0f0np0", False)])
def test_nor_has_it_one_of_the_rail_that_a_node_lacks(device: str, clashes: bool) -> None:
    """A Fritz!Box gives out 192.168.178.0/24, the second rail's; the firewall would drop it with one rail as well."""
    wanted = knobs()
    office = {"device": "enP7s7", "addresses": {"10.0.0.11": "enP7s7", "192.168.178.40": device}}
    node = replace(nodes(2, wanted)[0], rails=("enp1s0f0np0",), subnets=wanted.rail_subnets[:1])
    told = check_survey(node, survey(office=office), survey(), models(wanted, 2), wanted, 2)
    said = [f"{each.problem} -> {each.remedy}" for each in told if "fabric_subnets" in each.problem]
    line = "the interface of the login has 192.168.178.40, which is in `fabric_subnets` -> set `fabric_subnets` in "
    assert [each.startswith(line) for each in said] == [True] * clashes
    direct = check_survey(replace(node, management="192.168.178.41"), survey(), survey(), models(wanted, 2), wanted, 2)
    assert any("has 192.168.178.41, which" in each.problem for each in direct)


def test_solo_has_no_rails_that_the_login_could_come_in_over() -> None:
    assert findings(survey(came_in_by="enp1s0f0np0"), topology="solo") == ""


@pytest.mark.parametrize(
    ("recipe", "there", "said"),
    [
        ("nemotron-3-super-nvfp4-cutlass", False, "has no buildx"),
        ("nemotron-3-super-nvfp4-cutlass", True, ""),
        ("nemotron-3-super-nvfp4-auto", False, ""),
    ],
)
def test_an_image_that_is_built_by_buildkit_wants_buildx(recipe: str, there: bool, said: str) -> None:
    found = survey(docker={"version": "28.2.2", "runtimes": ["nvidia"], "buildx": False})
    wanted = knobs(recipe=recipe)
    image = models(wanted, 2)[0].image
    if there:
        found["state"]["images"][image.local] = {"image": {"id": "sha256:1"}}
    told = findings(found, recipe=recipe, engine_image_from=image.source)
    assert ("docker-buildx" in told) == bool(said) and said in told
    # The others get it from the head.
    assert "buildx" not in findings(found, index=1, recipe=recipe, engine_image_from=image.source)


def test_another_program_is_in_the_way_of_a_start_and_not_of_an_engine_that_runs() -> None:
    found = survey(strangers=[["another program computes on the GPU: comfyui", "end it"]])
    assert "comfyui" in findings(found)
    found["state"]["services"]["units"]["tandem-engine"] = {"ActiveState": "active"}
    assert findings(found) == ""
    # A driver that fails is in everybody's way.
    assert "hangs" in findings(found | {"gpu": [["the driver hangs", "reboot it"]]})


def test_what_the_recipe_exports_for_the_driver_is_tried_too() -> None:
    exports = {"LD_LIBRARY_PATH": "/opt/lib:$LD_LIBRARY_PATH", "OTHER": "$HOME"}
    recipe = load_recipe(knobs().recipe).model_copy(update={"exports": exports})
    assert gpu_exports(recipe) == 'export LD_LIBRARY_PATH="/opt/lib:$LD_LIBRARY_PATH"\n'
