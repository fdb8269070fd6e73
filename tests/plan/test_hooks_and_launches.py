"""What sparkrun does around a start, and Tandem at it: hooks, and what a launch knows."""

from __future__ import annotations

import subprocess
from pathlib import Path

from operations.plan.recipes.formats import load_file
from operations.plan.recipes.recipe import Recipe
from tests.plan.samples import engine_of, knobs, make_plan, nodes

TEXT = """recipe_version: "2"
model: org/model
model_revision: "1111111111111111111111111111111111111111"
runtime: vllm
container: registry.example/image:1
"""


def read(folder: Path, text: str) -> Recipe:
    (folder / "sample.yaml").write_text(TEXT + text)
    return load_file(folder / "sample.yaml")


def files(recipe: Recipe, place: int, topology: str) -> dict[str, str]:
    """What a node's engine gets, by the files' last names."""
    wanted = knobs(topology=topology, executor="mp")
    engine = engine_of(list(make_plan(recipe, wanted, nodes(2, wanted)).nodes)[place])
    assert engine
    return {file.path.rpartition("/")[2]: file.content for file in engine.files}


def test_a_launch_s_templates_are_filled_in_for_each_node(tmp_path: Path) -> None:
    env = "{A: '{launch.num_nodes}', B: '{launch.node_rank}', C: '{launch.model_path}/x', D: '{launch.node_host}'"
    recipe = read(tmp_path, f"env: {env}, E: '{{launch.runtime_cache_dir}}', F: '{{launch.model_revision}}'}}\n")
    for place in (0, 1):
        said = files(recipe, place, "cluster")["engine.env"].splitlines()
        snapshot = f"/hub/models--org--model/snapshots/{'1' * 40}"
        assert {"A=2", f"B={place}", f"C={snapshot}/x", f"D=192.168.177.1{place + 1}"} < set(said)
        assert {"E=/root/.cache", f"F={'1' * 40}"} < set(said)
        # Each replica is a launch by itself.
        assert {"A=1", "B=0"} < set(files(recipe, place, "replicas")["engine.env"].splitlines())


def test_a_hook_is_run_in_the_container_before_the_engine(tmp_path: Path) -> None:
    recipe = read(tmp_path, "defaults: {what: parser}\npre_exec:\n  - pip install {what}\n  - command: touch /x\n")
    assert recipe.hooks == ("pip install parser", "touch /x")
    found = files(recipe, 0, "replicas")
    assert found["hook-1.sh"] == "pip install parser\n" and found["hook-2.sh"] == "touch /x\n"
    before, last = found["start.sh"].splitlines()[-2:]
    assert before == "python3 /tandem/start_mods.py /tandem/hook-1.sh /tandem/hook-2.sh"
    assert last.startswith("exec ") and "start_mods.py" in found
    # Its root may do then what it may for a mod.
    assert "--cap-add CHOWN" in found["run.sh"]
    plain = files(read(tmp_path, ""), 0, "replicas")
    assert "start_mods.py" not in plain and "--cap-add CHOWN" not in plain["run.sh"]


def test_a_hook_s_script_is_run_and_the_one_that_fails_ends_the_start(tmp_path: Path) -> None:
    program = Path("files/engine/start_mods.py").absolute()
    (tmp_path / "hook-1.sh").write_text(f"touch {tmp_path}/made\nfalse\n")
    (tmp_path / "hook-2.sh").write_text(f"touch {tmp_path}/never\n")
    hooks = [str(tmp_path / f"hook-{each}.sh") for each in (1, 2)]
    done = subprocess.run(["python3", str(program), *hooks], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f"{hooks[0]} has failed with 1" in done.stderr
    assert (tmp_path / "made").exists() and not (tmp_path / "never").exists()
