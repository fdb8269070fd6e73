"""Everything that lands on every node: one whole node for each topology, and what differs for the rest.

`GOLDEN=write pytest tests/plan/test_golden.py` writes the files anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

from operations.paths import (
    ADDRESS,
    ALERTMANAGER,
    CANARY,
    ENGINE,
    EXPORTER,
    FALLBACK,
    FIREWALL,
    GUARD,
    LITELLM,
    OFFICE,
    PAGE,
    PROMETHEUS,
    PROXY,
)
from operations.plan.plan import Plan
from operations.plan.recipes.formats import FOLDER, load_recipe
from operations.plan.recipes.judge import lint
from operations.plan.services.tuning import TUNING
from tests.plan.samples import engine_of, knobs, make_plan, nodes, plan, ring_plan

GOLDEN = Path(__file__).parent / "golden"
RECIPES = GOLDEN / "recipes"

SGLANG = str(Path(__file__).parent / "peers/sparkrun-sglang.yaml")
CASES: dict[str, dict[str, Any]] = {
    "solo": {"topology": "solo"},
    "solo-lone-node": {"topology": "solo", "count": 1},
    "cluster-ray": {"topology": "cluster", "executor": "ray", "recipe": "nemotron-3-super-nvfp4-marlin"},
    "cluster-mp": {"topology": "cluster", "executor": "mp"},
    "cluster-mp-fallback": {"topology": "cluster", "executor": "mp", "fallback": "solo"},
    "cluster-prometheus": {
        "monitoring": "prometheus",
        "alarms": [
            {"webhook": "http://10.0.0.9/hook", "token_file": "hook.token"},
            {"ntfy": "https://ntfy.example.org/topic"},
            {
                "email": "you@example.org",
                "from": "spark@example.org",
                "smtp": "mail.example.org:587",
                "user": "spark",
                "password_file": "smtp.password",
            },
        ],
    },
    "replicas-metrics": {"topology": "replicas", "monitoring": "metrics"},
    "cluster-ray-3-nodes": {
        "topology": "cluster",
        "executor": "ray",
        "recipe": "nemotron-3-super-nvfp4-marlin",
        "count": 3,
    },
    "cluster-mp-pp": {"topology": "cluster", "executor": "mp", "pipeline_parallel": 2, "count": 4},
    "cluster-ray-pp-3-nodes": {
        "topology": "cluster",
        "executor": "ray",
        "pipeline_parallel": 3,
        "recipe": "nemotron-3-super-nvfp4-marlin",
        "count": 3,
    },
    "replicas": {"topology": "replicas"},
    "replicas-of-pairs": {"topology": "replicas", "nodes_per_replica": 2, "count": 4},
    "replicas-address": {"topology": "replicas", "proxy_bind": "management", "proxy_address": "10.0.0.50"},
    **{f"sglang-{topology}": {"topology": topology, "recipe": SGLANG} for topology in ("solo", "cluster", "replicas")},
    "replicas-lab": {
        "topology": "replicas",
        "recipe": "lab-tiny-llama",
        "proxy_bind": "management",
        "engine_image_from": "archive:/srv/engine.tar",
        "proxy_image_from": "archive:/srv/proxy.tar",
    },
}
#: On three nodes without a switch.
RINGS: dict[str, dict[str, Any]] = {
    "cluster-mp-pp-ring": {"topology": "cluster", "executor": "mp", "pipeline_parallel": 3},
}

#: Cases whose first node is written whole, by topology. All else is written as what differs from one of these.
WHOLE = {"solo": "solo", "cluster": "cluster-mp", "replicas": "replicas"}

#: Files that are shipped as they are: their bytes are in the repository, and only their names are written here.
SHIPPED = (".py", ".js", ".css", ".html", ".svg", ".LICENSE", "/rules.yml")

#: The order in which services are written; what is not named comes last.
WRITTEN = (
    *(ENGINE, PROXY, *LITELLM, ADDRESS, CANARY, GUARD, OFFICE, FALLBACK, EXPORTER, PROMETHEUS, ALERTMANAGER, PAGE),
    *(TUNING, FIREWALL),
)

#: A node's files: path and mode -> content.
Landed = dict[str, str]


def landed(of: Plan) -> list[tuple[str, Landed]]:
    """What lands on each node of a plan, with the node's name."""
    found: list[tuple[str, Landed]] = []
    for node in of.nodes:
        services = [node.services[unit] for unit in sorted(node.services, key=_place)]
        files = [*node.fabric, *(file for service in services for file in service.files)]
        contents = {f"{each.path} {each.mode}": "" if each.path.endswith(SHIPPED) else each.content for each in files}
        found.append((node.node.name, contents))
    return found


def _place(unit: str) -> int:
    """Files are written in that order, whatever starts first: what starts elsewhere rewrites no golden file."""
    return next((place for place, name in enumerate(WRITTEN) if unit.startswith(name)), len(WRITTEN))


def whole(files: Landed) -> str:
    """Every file with its content."""
    return "".join(f"#### {name}\n{content}" + ("\n" if content else "") for name, content in files.items())


def difference(base: Landed, files: Landed) -> str:
    """What differs from another node: lines of a unified diff a file, names of files that only one of them has."""
    told: list[str] = []
    for name in [*files, *(name for name in base if name not in files)]:
        old, new = (None if each is None else each.splitlines() for each in (base.get(name), files.get(name)))
        if old == new:
            continue
        if new is None:
            told.append(f"#### {name}: absent")
        elif old is None:
            told += [f"#### {name}: only here", *new]
        else:
            # Without the names of two files, and without numbers of lines: a line more above would change them all.
            lines = list(unified_diff(old, new, lineterm="", n=0))[2:]
            told += [f"#### {name}", *("@@" if line.startswith("@@") else line for line in lines)]
    return "".join(f"{line}\n" for line in told)


def as_text(case: str, of: Plan) -> str:
    """The golden text of a plan: whole where the case is its topology's own, else against that one's nodes.

    A node of a further rank is held against the last node that the base has, or against the case's own first node:
    whichever it is nearer to.
    """
    own = WHOLE[of.knobs.topology]
    nodes = landed(of)
    if case == own:
        (first, head), *others = nodes
        return f"######## {first}\n{whole(head)}" + "".join(
            f"######## {name}, where it differs from {first}\n{difference(head, files)}" for name, files in others
        )
    base = landed(plan(**CASES[own]))
    parts: list[str] = []
    for place, (name, files) in enumerate(nodes):
        like, there = base[min(place, len(base) - 1)]
        near = [(f"{like} of {own}", difference(there, files))]
        near += [(nodes[0][0], difference(nodes[0][1], files))] if place else []
        like, told = min(near, key=lambda each: len(each[1]))
        parts.append(f"######## {name}, where it differs from {like}\n{told}")
    return "".join(parts)


@pytest.mark.parametrize("case", CASES)
def test_everything_that_lands_on_the_nodes(case: str) -> None:
    check(GOLDEN / f"{case}.txt", as_text(case, plan(**CASES[case])))


@pytest.mark.parametrize("case", RINGS)
def test_everything_that_lands_on_the_nodes_of_a_ring(case: str) -> None:
    check(GOLDEN / f"{case}.txt", as_text(case, ring_plan(**RINGS[case])))


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.yaml")))
def test_what_each_recipe_runs(name: str) -> None:
    """Command, environment, options and container of each recipe, in each topology that it may run in.

    Four of them were read against their source, word by word; what differs does so for the reason given.

    nemotron-3-super-nvfp4-marlin against [E], "The Working Command": the three variables, the image, dtype, KV dtype,
    MoE backend, trust, 0.85, 200000, 4096, both parsers, auto tool choice and prefix caching are the source's.
    Different: `--model PATH` is the snapshot of the pinned revision as vLLM's argument; `--tensor-parallel-size`, host
    and port are the plan's; no `--ipc host`, beside which `--shm-size 16g` has no effect; `--restart unless-stopped`
    is systemd's part; `-p 8002:8000` is the host's network.

    nemotron-3-super-nvfp4-cutlass against [A]: the four variables (VLLM_DISABLED_KERNELS without the class that 0.17.1
    does not have), 0.70 and 262144 are the source's, the patch is files/mods/sm121-cutlass. [A] prints no command: the
    other flags are those of the recipe that it names ([F]), but max-num-batched-tokens, which is ours, for the Mamba
    block. GLOO_SOCKET_IFNAME, which [A] asks for in a cluster, is in engine.env of every rank.

    nemotron-3-super-nvfp4-mtp against [C], vLLM: the four variables, async scheduling, dtype, KV dtype, trust, chunked
    prefill, 4 sequences, Marlin, mamba_ssm_cache_dtype float32, the speculative configuration, the parser's plugin and
    the tool parser are the source's. Different: 0.85 for 0.90 and 262144 for 1000000 (memory), KV bytes pinned (the
    negative estimate), no `--quantization fp4` (the checkpoint says it), no pipeline and data parallel size (1 is the
    default), the plugin from the model's own files, a release for the nightly. HF_TOKEN is not passed: nothing is
    downloaded at a start.

    nemotron-3-super-nvfp4-trtllm against [C], TensorRT-LLM: every flag and every option is the source's, in its order;
    different are the host (the plan's), port 8123 (the knob's), free_gpu_memory_fraction 0.8 for 0.9, and the model's
    path, which is a link under the name that clients use.
    """
    recipe = load_recipe(name)
    if recipe.model.revision is None:
        recipe = recipe.model_copy(update={"model": recipe.model.model_copy(update={"revision": "0" * 40})})
    parts = []
    for topology in recipe.topologies:
        by_ray = lint(recipe, knobs(topology=topology, executor="ray"))
        executor = "mp" if any("no Ray" in str(each) for each in by_ray) else "ray"
        wanted = knobs(topology=topology, executor=executor)
        for planned in make_plan(recipe, wanted, nodes(max(2, recipe.min_nodes), wanted)).serving:
            files = engine_of(planned).files
            shown = [file for file in files if file.path.endswith(("run.sh", "start.sh", ".env", ".yml"))]
            parts += [f"#### {topology} {planned.node.name} {file.path}\n{file.content}\n" for file in shown]
    check(RECIPES / f"{name}.txt", "".join(parts))


def check(file: Path, rendered: str) -> None:
    """Compare with the golden file, or write it."""
    if os.environ.get("GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(rendered)
    assert rendered == file.read_text()


def test_no_golden_file_is_left_over() -> None:
    assert {file.stem for file in GOLDEN.glob("*.txt")} == {*CASES, *RINGS}
    assert {file.stem for file in RECIPES.glob("*.txt")} == {file.stem for file in FOLDER.glob("*.yaml")}
