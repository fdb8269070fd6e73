"""Which way NCCL, UCX and Open MPI take is the plan's to say, for each node: recipes that pin it would pin it wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from operations.plan.cluster import environment
from operations.plan.config.refusal import Refusal
from operations.plan.recipes.formats import FOLDER, load_file, load_recipe
from operations.plan.recipes.recipe import OWNED_ENV, Recipe
from tests.plan.samples import engine_of, knobs, make_plan, nodes, ring

#: A recipe for two nodes as eugr's tool has them, with lines of its own.
FOREIGN = """\
recipe_version: "1"
name: pinned
model: org/model
container: vllm/vllm-openai:v0.31.0
cluster_only: true
env: {NCCL_IB_GID_INDEX: "3", NCCL_NET: IB, NCCL_IB_TC: "", NCCL_IB_DISABLE: "0"}
defaults: {port: 8000, host: 0.0.0.0, tensor_parallel: 2}
command: |
  export NCCL_IB_ADDR_FAMILY=AF_INET
  export NCCL_IB_ROCE_VERSION_NUM=$ROCE
  vllm serve org/model --port {port} --host {host} -tp {tensor_parallel}
"""
PINNED = ("NCCL_IB_GID_INDEX", "NCCL_NET", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ROCE_VERSION_NUM")


@pytest.fixture
def foreign(tmp_path: Path) -> Recipe:
    file = tmp_path / "pinned.yaml"
    file.write_text(FOREIGN)
    return load_file(file)


def test_a_foreign_recipe_s_ways_are_left_out_with_a_remark_each(foreign: Recipe) -> None:
    said = [str(each.problem) for each in foreign.remarks if not each.error]
    assert {f"env `{name}` is left out" for name in PINNED} <= set(said)
    assert not set(PINNED) & {*foreign.env, *foreign.exports}
    # What says how, not by which way, is the recipe's.
    assert foreign.env == {"NCCL_IB_TC": "", "NCCL_IB_DISABLE": "0"}


def test_no_rank_gets_what_was_left_out(foreign: Recipe) -> None:
    model = foreign.model.model_copy(update={"revision": "0" * 40})
    wanted = knobs(topology="cluster", executor="mp")
    planned = make_plan(foreign.model_copy(update={"model": model}), wanted, nodes(2, wanted))
    for node in planned.nodes:
        files = [file.content for file in engine_of(node).files]
        assert not [name for name in PINNED for text in files if f"{name}=" in text]


@pytest.mark.parametrize("name", [*PINNED, "NCCL_NET_PLUGIN", "NCCL_DEBUG_FILE", "VLLM_NIC_SELECTION_VARS"])
def test_a_recipe_of_one_s_own_that_pins_it_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    file = tmp_path / "recipe.yaml"
    text = (FOLDER / "lab-tiny-llama.yaml").read_text()
    file.write_text(text.replace('OMP_NUM_THREADS: "1"', f'{name}: "3"'))
    with pytest.raises(Refusal, match=f"`{name}` is set by the plan, for each node; remove it"):
        load_recipe(str(file))


def test_what_a_ring_s_wiring_asks_of_nccl_is_no_recipe_s() -> None:
    around = ring(knobs())
    env = environment.rank_environment(around[0], around)
    assert env.keys() - set(OWNED_ENV) == {"NCCL_IGNORE_CPU_AFFINITY", "NCCL_IB_DISABLE"}
