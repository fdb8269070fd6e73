"""When a mod acts: on the image, at each start, on the node; never baked in and dead."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from operations.plan.config.files import render
from operations.plan.recipes import mods
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.images import Image, engine_image
from operations.plan.recipes.mod_acts import LIMIT, acts
from operations.plan.recipes.shell_text import sort_out
from tests.plan.samples import engine_of, knobs, make_plan, nodes

BUILD = {
    "a patch": "set -e\npatch -p1 -d / < fix.patch\n",
    "a file beside the start": "cp chat.jinja $WORKSPACE_DIR/chat.jinja\necho 'use --chat-template chat.jinja'\n",
    "all that looks like a background and is none": (
        "a >/dev/null 2>&1 && b &>log; c >&2; d <&3; e |& cat\n(( x & 1 )) && [[ a & b ]]\n"
        "sed 's/a/&b/' x; sed s/a/\\&/ y; case x in a) b ;;& c) d ;& esac # and &\n"
    ),
    "jobs that it waits for": "for f in *.patch; do check $f & done\nwait\n",
    "a server that it ends": "server & pid=$!\ncurl localhost\nkill $pid\n",
    "what it writes for later": "cat > /usr/bin/x <<'EOF'\nnohup server &\nexec /root/.cache/x $VLLM_X\nEOF\n",
    "what a patch says": "python3 - <<'PY'\nnew = 'torch.cuda.empty_cache() # /sys/class/net & $VLLM_X'\nPY\n",
    "a here-document with tabs": "cat > x <<-RUN\n\tsleep 1 &\n\tRUN\ntrue\n",
    "caches of the build": "rm -rf /root/.cache/pip ~/.cache/uv\n",
    "single quotes": "echo '$VLLM_X is not filled in; a & b'\n",
    "a comment": "# nohup server & nvidia-smi $VLLM_X\ntrue\n",
    "a here-string": 'read -r a <<< "$x"\ntrue\n',
    "a process for a file": "while read -r l; do echo $l; done < <(find .)\n",
}
START = {
    "nohup server --port 1 >/dev/null 2>&1 &\n": "leaves a process behind",
    "(while true; do sync; sleep 5; done) &\n": "leaves a process behind",
    "setsid server < /dev/null\n": "leaves a process behind",
    "bash -c 'server & disown'\n": "leaves a process behind",
    "bash -c 'while true; do '\"$CMD\"'; done' &\n": "leaves a process behind",
    "ray start --head\n": "leaves a process behind",
    "[ \"$VLLM_X\" = 1 ] || exit 1\n": "it reads `$VLLM_X`",
    "IFS=, read -r -a h <<< \"${NCCL_IB_HCA:-}\"\n": "it reads `$NCCL_IB_HCA`",
    "cat > x <<EOF\n$VLLM_HOST_IP\nEOF\n": "it reads `$VLLM_HOST_IP`",
    "mkdir -p \"${DIR:-/root/.cache/vllm/kv}\"\n": "`/root/.cache/vllm` is mounted",
    "# kept in ~/.cache/flashinfer\npython -c 'import flashinfer'\n": "`~/.cache/flashinfer` is mounted",
    "hub=\"${HF_HOME:-x}/hub\"\n": "`${HF_HOME` is mounted",
    "stat -c %u /cache/runtime\n": "is a mount of sparkrun's",
    "[ -d \"/sys/class/infiniband/$hca\" ]\n": "is the node's",
    "nvidia-smi -q | grep x\n": "asks the GPU",
    "python3 asks.py\n": "asks.py has `netifaces`",
    "python3 ./leaves.py\n": "leaves.py has `start_new_session=True`",
}  # fmt: skip
REFUSED = {
    "sysctl -w vm.swappiness=0\n": "it sets `sysctl -w vm.swappiness=`",
    "echo 1 > /proc/sys/vm/compact_memory\n": "it sets `/proc/sys/vm/compact_memory`",
    "echo 3 > /proc/sys/vm/drop_caches; cp a b\n": "it sets `/proc/sys/vm/drop_caches`",
    "nvidia-smi -pm 1\n": "it sets `nvidia-smi -pm`",
    "bash -c 'modprobe nvidia_peermem'\n": "it sets `modprobe nvidia_peermem`",
    "exec python3 hook.py\n": "it reads `$SPARKRUN_NODE_RANK`, which only sparkrun sets",
    "[ $SPARKRUN_NODE_RANK = 0 ] && x\n": "it reads `$SPARKRUN_NODE_RANK`, which only sparkrun sets",
}


def folder(tmp_path: Path, text: str) -> Path:
    here = tmp_path / "fix"
    here.mkdir()
    (here / "run.sh").write_text(f"#!/bin/bash\n{text}")
    (here / "asks.py").write_text("import netifaces\n")
    (here / "leaves.py").write_text("subprocess.Popen(argv, start_new_session=True)\n")
    (here / "hook.py").write_text("rank = os.environ['SPARKRUN_NODE_RANK']\n")
    return here


@pytest.mark.parametrize("text", BUILD.values(), ids=BUILD)
def test_what_changes_the_image_is_put_into_it(tmp_path: Path, text: str) -> None:
    assert acts(folder(tmp_path, text), ["VLLM_X"]).when == "build"


@pytest.mark.parametrize(("text", "said"), START.items(), ids=lambda value: str(value)[:40])
def test_what_acts_on_what_runs_is_run_at_each_start(tmp_path: Path, text: str, said: str) -> None:
    found = acts(folder(tmp_path, text), ["VLLM_X"])
    assert found.when == "start" and said in found.sign


@pytest.mark.parametrize(("text", "said"), REFUSED.items(), ids=lambda value: str(value)[:40])
def test_what_a_container_may_not_is_refused_with_the_reason(tmp_path: Path, text: str, said: str) -> None:
    found = acts(folder(tmp_path, text))
    assert found.when == "refused" and said in found.sign


@pytest.mark.parametrize(("pause", "every"), [("sleep 60", 60), ("sleep 7", 7), ("sleep $X", 60)])
def test_a_loop_that_drops_caches_is_the_node_s(tmp_path: Path, pause: str, every: int) -> None:
    text = (
        f"CMD='sync; echo 3 > /proc/sys/vm/drop_caches'\nnohup bash -c 'while true; do '\"$CMD\"'; {pause}; done' &\n"
    )
    found = acts(folder(tmp_path, f"{text}echo $! > /tmp/pid\n"))
    assert (found.when, found.every_s) == ("node", every)


@pytest.mark.parametrize(
    "text", ["'", '"', "<<EOF", "<<EOF\nx", "$(", "\\", "a <<'X", "\0", "bash -c '", "#", "((", ""]
)
def test_half_a_script_is_read_as_far_as_it_goes(tmp_path: Path, text: str) -> None:
    sort_out(text)
    assert acts(folder(tmp_path, text)).when


LONG = ("a && b || c 2>&1\n", "'", "((", "[[ ", "<<A ", "nvidia-", "bash -c '", "\\", "$((", "a.py ", "sysctl -a ")


@pytest.mark.parametrize("piece", LONG)
def test_a_long_script_is_judged_at_once(tmp_path: Path, piece: str) -> None:
    here = folder(tmp_path, (piece * LIMIT)[: LIMIT - 50])
    began = time.monotonic()
    assert acts(here).when
    assert time.monotonic() - began < 10
    (here / "run.sh").write_text(piece * (LIMIT + 1))
    assert acts(here).when == "start"


@pytest.mark.parametrize(("says", "starts"), [("start", ("fix",)), ("build", ())])
def test_its_own_word_counts_before_the_signs(tmp_path: Path, says: str, starts: tuple[str, ...]) -> None:
    here = folder(tmp_path, "true\n" if says == "start" else "server &\n")
    (here / "mod.yaml").write_text(f"name: fix\nrun: {says}\n")
    found = mods.settle([str(here)])
    assert found.starts == starts and found.mods == (str(here),) and mods.findings(found.mods) == []
    (here / "run.sh").unlink()
    assert "has no run.sh" in mods.findings([str(here)])[0].problem


def test_the_image_has_both_in_the_recipe_s_order_and_runs_one_of_them_alone(tmp_path: Path) -> None:
    for name in ("z-first", "a-then", "beside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.sh").write_text("true\n")
    names = (*(str(tmp_path / name) for name in ("z-first", "beside", "a-then")), "sm121-b12x")
    image = Image("engine", "x", "registry", names, starts=("beside",))
    text = dict(image.context)["Dockerfile"].decode()
    assert [line.split("/")[-1] for line in text.splitlines() if line.startswith("RUN")] == [
        *('run.sh"]', 'run.sh"]', "mod.json"),
    ]
    assert (
        text.index("mods/z-first/") < text.index("mods/beside/") < text.index("mods/a-then/") < text.index("apply.py")
    )
    assert "COPY mods/beside/ /workspace/mods/beside/" in text and "mods/beside &&" not in text
    for line in text.splitlines():
        if line.startswith("RUN ["):
            assert json.loads(line.removeprefix("RUN "))[:2] == ["bash", "-c"]
    before = image.local
    (tmp_path / "beside/run.sh").write_text("false\n")
    assert replace(image).local != before, "what is run at the start is of the image as well"
    assert image.base.starts == ()


def test_a_start_runs_them_before_the_engine_on_every_rank() -> None:
    wanted = knobs(recipe="lab-tiny-llama")
    recipe = load_recipe("lab-tiny-llama")
    plain = make_plan(recipe, wanted, nodes(2, wanted))
    plan = make_plan(recipe.model_copy(update={"start_mods": ("a", "b")}), wanted, nodes(2, wanted))
    for node, before in zip(plan.nodes, plain.nodes, strict=True):
        assert engine_of(node).spec != engine_of(before).spec
        files = {Path(file.path).name: file.content for file in engine_of(node).files}
        lines = files["start.sh"].splitlines()
        assert lines.index("python3 /tandem/start_mods.py a b") > lines.index("set -eu")
        after = lines[lines.index("python3 /tandem/start_mods.py a b") + 1]
        assert after.removeprefix("exec ").startswith(("ray", "vllm", "python3"))
        assert "start_mods.py" in files and not any("start_mods" in file.path for file in engine_of(before).files)


def test_the_node_drops_its_caches_while_the_unit_lives() -> None:
    wanted = knobs(recipe="lab-tiny-llama", topology="solo")
    recipe = load_recipe("lab-tiny-llama").model_copy(update={"drop_caches_s": 7})
    plan = make_plan(recipe, wanted, nodes(1, wanted))
    text = next(file.content for file in engine_of(plan.head).files if file.path.endswith("engine/run.sh"))
    drops = "while sleep 7; do\n    sync\n    echo 3 >/proc/sys/vm/drop_caches\ndone &\n"
    assert drops in text and "\nexec /usr/bin/docker run" in text.partition(drops)[2]
    assert "drop_caches" not in render("run.sh.j2", docker=["docker"])


def test_a_recipe_of_tandem_s_own_settles_its_mods_too(tmp_path: Path) -> None:
    here = folder(tmp_path, "server &\n")
    shipped = (Path(__file__).parents[2] / "files/recipes/lab-tiny-llama.yaml").read_text()
    file = tmp_path / "lab-tiny-llama.yaml"
    file.write_text(f"{shipped}\nmods: [{here}]\n")
    recipe = load_recipe(str(file))
    assert recipe.start_mods == ("fix",) and engine_image(recipe, knobs()).starts == ("fix",)
