"""Recipes on the real engine: judged by the image itself, proven by its log, changed by mods once and for all."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from operations.plan.recipes.formats import FOLDER
from operations.plan.recipes.lint.subject import FOLDER as VOCABULARIES
from tests.chaos import client
from tests.lab import chat, cluster, further, model
from tests.lab.cluster import HEAD, WORKER, deploy, on

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("ray_cluster")]
MODS = Path(__file__).parents[1] / "lab/mods"
#: In the image: what vLLM's own parser and registries say. It imports vLLM, which takes a quarter of a minute.
TRUTH = """
import json
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager
import vllm.envs
parser = make_arg_parser(FlexibleArgumentParser())
options = [o[2:].replace("_", "-") for a in parser._actions for o in a.option_strings if o.startswith("--")]
choices = {a.option_strings[0][2:]: sorted(map(str, a.choices)) for a in parser._actions if a.choices}
print(json.dumps({
    "flags": sorted(o for o in options if not o.startswith("no-") and o != "help"),
    "moe": choices["moe-backend"],
    "environment": sorted(vllm.envs.environment_variables),
    "reasoning": sorted(ReasoningParserManager.list_registered()),
    "tools": sorted(ToolParserManager.list_registered()),
}))
"""


def recipe(tmp_path: Path, name: str, **changes: Any) -> str:
    """The lab's recipe with changes, as a file; mappings are merged into its own."""
    data = yaml.safe_load((FOLDER / "lab-tiny-llama.yaml").read_text())
    for key, value in (changes | {"name": name}).items():
        data[key] = {**data[key], **value} if isinstance(value, dict) else value
    file = tmp_path / f"{name}.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return str(file)


def make(*words: str, code: int = 0) -> str:
    """What a verb prints, on the lab; its words of failure when it is expected to fail."""
    argv = ["make", "-s", *words, f"INVENTORY={cluster.INVENTORY}", f"PYTHON={sys.executable}"]
    said = subprocess.run(argv, capture_output=True, text=True, cwd=cluster.ROOT, check=False)
    assert said.returncode == code, said.stdout + said.stderr
    return said.stdout if code == 0 else said.stderr


def test_three_faults_are_refused_in_one_go_while_the_old_engine_serves_on(tmp_path: Path, at: dict[str, str]) -> None:
    before = [on(node, "docker inspect --format '{{.Id}}' tandem-engine") for node in (HEAD, WORKER)]
    faulty = recipe(
        tmp_path,
        "faulty",
        env={"VLLM_CPU_OMP_THREAD_BIND": "nobind"},
        flags={"swap-space": 4, "reasoning-parser": "qwen33", "moe-backend": "marlinn"},
    )
    with client.load(at, client.learn(at), clients=2) as seen:
        said = deploy(topology="cluster", recipe=faulty)
    assert said.refused and "Traceback" not in said.text
    for words in (
        "(the image) reads no `VLLM_CPU_OMP_THREAD_BIND`",
        "did you mean `VLLM_CPU_OMP_THREADS_BIND`?",
        "(the image) has no flag `--swap-space`",
        "it is gone: vLLM 0.1",
        "reasoning-parser: vLLM 0.32.0 (the image) has no `qwen33`",
        "moe-backend: vLLM 0.32.0 (the image) knows no `marlinn`",
    ):
        assert words in said.text, said.text
    assert said.text.count("-> ") >= 3
    assert seen.answered and not (seen.failed or seen.wrong or seen.turned_away), seen
    assert [on(node, "docker inspect --format '{{.Id}}' tandem-engine") for node in (HEAD, WORKER)] == before


def test_what_is_read_from_the_sources_is_what_vllm_itself_says() -> None:
    image_id = on(HEAD, "docker inspect --format '{{.Image}}' tandem-engine").strip().removeprefix("sha256:")
    told = json.loads(on(HEAD, f"cat /var/lib/tandem/vocabularies/{image_id}.json"))
    (HEAD.root / "root/truth.py").write_text(TRUTH)
    image = on(HEAD, "docker inspect --format '{{.Config.Image}}' tandem-engine").strip()
    run = f"docker run --rm -i --network none --entrypoint python3 {image} - < /root/truth.py 2>/dev/null"
    truth = json.loads(on(HEAD, run).splitlines()[-1])
    assert sorted(told["flags"]) == truth["flags"]
    assert sorted(told["flags"]["moe-backend"]["choices"]) == truth["moe"]
    assert sorted(told["environment"]) == truth["environment"]
    assert told["reasoning_parsers"] == truth["reasoning"] and told["tool_parsers"] == truth["tools"]
    assert told["ray"] is True
    # The release's own wheel says the same, but that the lab's image has Ray in it.
    shipped = json.loads((VOCABULARIES / f"vllm-{told['version']}.json").read_text())
    assert shipped | {"ray": True} == told


def test_a_check_changes_nothing_and_names_its_judge() -> None:
    assert make("check") == "lab-tiny-llama, cluster on 2 node(s): ok by the image itself (vLLM 0.32.0)\n"


@pytest.mark.long
def test_every_byte_is_hashed_again_when_asked(tmp_path: Path) -> None:
    assert make("verify").count("whole, every byte proven") == 2
    shard = f"$(readlink -f {cluster.STORE}/snapshots/{model.revision()}/model-00001-of-00002.safetensors)"
    flip = "printf '\\001' | dd of=$f bs=1 seek=100000 conv=notrunc"
    on(WORKER, f'f={shard}; t=$(stat -c %y $f); {flip} 2>/dev/null; touch -d "$t" $f')
    assert make("verify").count("whole, every byte proven") == 2, "the stamp is as it was"
    said = make("verify", "DEEP=1", code=2)
    assert "spark-2: " in said and "model-00001-of-00002.safetensors: its content is not what its hash" in said
    assert deploy(topology="cluster").code == 0
    assert make("verify", "DEEP=1").count("whole, every byte proven") == 2


def test_a_mod_is_in_the_image_once_and_the_log_proves_the_start(tmp_path: Path) -> None:
    modded = recipe(
        tmp_path,
        "modded",
        mods=[str(MODS / "lab-banner")],
        proof={"expect": ["Starting vLLM server|Application startup complete"]},
    )
    done = deploy(topology="solo", recipe=modded)
    assert done.code == 0, done.text
    say = "docker exec tandem-engine python3 -c 'import vllm.version as v; print(v.TANDEM_LAB_BANNER)'"
    assert on(HEAD, say).strip() == "True"
    record = json.loads(on(HEAD, "docker exec tandem-engine cat /usr/local/share/tandem/mods/lab-banner.json"))
    assert [each["done"] for each in record] == ["applied"]
    image = on(HEAD, "docker inspect --format '{{.Config.Image}}' tandem-engine").strip()
    apply = "python3 /opt/tandem/mods/apply.py /opt/tandem/mods/lab-banner/mod.json"
    assert "already" in on(HEAD, f"docker run --rm --entrypoint sh {image} -c '{apply}'")
    again = deploy(topology="solo", recipe=modded)
    assert again.code == 0 and again.changes == 0, again.text


@pytest.mark.long
def test_a_mod_that_acts_at_run_time_runs_beside_the_engine(tmp_path: Path) -> None:
    beside = recipe(tmp_path, "beside", mods=[str(MODS / "lab-beside")])
    done = deploy(topology="solo", recipe=beside)
    assert done.code == 0, done.text
    assert "the mod `lab-beside` is run at each start: it leaves a process behind" in done.text
    beat = "docker exec tandem-engine cat /tmp/lab-beside"
    first = on(HEAD, beat)
    assert on(HEAD, f"sleep 2; {beat}") != first
    on(HEAD, "docker exec tandem-engine sh -c 'kill $(cat /tmp/lab-beside.pid)'")
    time.sleep(2)
    said = on(HEAD, "journalctl -u tandem-engine -o cat --no-pager")
    assert "what the mod lab-beside has left running has failed" in said and "ended with signal SIGTERM" in said
    again = deploy(topology="solo", recipe=beside)
    assert again.code == 0 and again.changes == 0, again.text


def test_an_image_that_nothing_needs_is_told_and_pruned() -> None:
    """The derived image is now the unit's; for the plan of the inventory it is the other way round."""
    old = on(HEAD, "docker inspect --format '{{.Config.Image}}' tandem-engine").strip()
    assert deploy(topology="solo").code == 0
    # A rollback would need it; once nothing is remembered nobody does.
    assert old not in make("status")
    on(HEAD, "rm /var/lib/tandem/served.json")
    told = make("status")
    assert "spark-1: neither the plan nor a unit needs " in told and f"{old} (" in told
    needed = on(HEAD, "docker inspect --format '{{.Config.Image}}' tandem-engine").strip()
    said = make("prune")
    assert f"spark-1: removed {old}" in said and needed not in said
    assert needed in on(HEAD, "docker images --format '{{.Repository}}:{{.Tag}}'").split()
    assert old not in make("status")


@pytest.mark.long
def test_a_draft_an_adapter_and_a_template_are_served(tmp_path: Path) -> None:
    (tmp_path / "many.jinja").write_text("{{ 'x' * 60 }}{% for m in messages %}{{ m.content }}{% endfor %}")
    needs = {
        "further_models": [{"repo": repo, "revision": further.revision()} for repo in (further.DRAFT, further.ADAPTER)],
        "flags": {
            "speculative-config": {"model": further.DRAFT, "num_speculative_tokens": 2},
            "chat-template": "many.jinja",
            "enable-lora": True,
            "max-lora-rank": further.RANK,
            "lora-modules": [f"poet={further.ADAPTER}"],
        },
    }
    needy = recipe(tmp_path, "needy", **needs)
    done = deploy(topology="replicas", recipe=needy)
    assert done.code == 0, done.text
    at = chat.endpoint()
    url, key = at["OPENAI_BASE_URL"], at["OPENAI_API_KEY"]
    told = [chat.ask(url, key, name, "Hello", logprobs=True) for name in ("tiny-llama", "poet")]
    for answer in told:
        assert answer["usage"]["prompt_tokens"] > 60, "the template is the recipe's"  # type: ignore[index]
    # The likeliest token may well be the same.
    odds = [answer["choices"][0]["logprobs"]["content"][0]["logprob"] for answer in told]  # type: ignore[index]
    assert abs(odds[0] - odds[1]) > 0.01, "the adapter changes what is said"
    metrics = on(HEAD, "curl -s http://192.168.177.11:8001/metrics")
    assert "vllm:spec_decode_num_drafts" in metrics
    for node in (HEAD, WORKER):
        for repo in (further.DRAFT, further.ADAPTER):
            folder = "models--" + repo.replace("/", "--")
            assert on(node, f"ls /var/lib/tandem/models/{folder}/{further.revision()}.json")
    again = deploy(topology="replicas", recipe=needy)
    assert again.code == 0 and again.changes == 0, again.text


@pytest.mark.long
def test_an_embedding_model_is_proven_and_served_through_the_proxy(tmp_path: Path) -> None:
    pooled = recipe(tmp_path, "pooled", flags={"runner": "pooling", "convert": "embed"})
    done = deploy(topology="solo", recipe=pooled)
    assert done.code == 0, done.text
    at = chat.endpoint()
    answer = requests.post(
        f"{at['OPENAI_BASE_URL']}/embeddings",
        headers={"Authorization": f"Bearer {at['OPENAI_API_KEY']}"},
        json={"model": at["OPENAI_MODEL"], "input": ["One Spark", "another"]},
        timeout=60,
    )
    answer.raise_for_status()
    vectors = [each["embedding"] for each in answer.json()["data"]]
    assert [len(each) for each in vectors] == [model.HIDDEN] * 2 and vectors[0] != vectors[1]
    assert make("status").count("answers in") == 2
    again = deploy(topology="solo", recipe=pooled)
    assert again.code == 0 and again.changes == 0, again.text


@pytest.mark.long
def test_a_line_that_must_not_be_said_ends_the_deploy(tmp_path: Path) -> None:
    forbidden = recipe(
        tmp_path,
        "forbidden",
        proof={"forbid": [{"pattern": "Starting to load model", "meaning": "the test says so"}]},
    )
    said = deploy(topology="solo", recipe=forbidden)
    ended = time.time()
    assert said.refused and "Traceback" not in said.text
    assert "Starting to load model" in said.text and ": the test says so. The engine is stopped" in said.text
    lines = on(HEAD, "journalctl -u tandem-engine -o short-unix --no-pager").splitlines()
    appeared = [float(line.split()[0]) for line in lines if "Starting to load model" in line][-1]
    assert ended - appeared < 5
    for _ in range(60):
        if on(HEAD, "systemctl is-active tandem-engine", check=False).strip() != "deactivating":
            break
        time.sleep(1)
    assert on(HEAD, "systemctl is-active tandem-engine", check=False).strip() in ("inactive", "failed")
    assert on(HEAD, "systemctl is-enabled tandem-engine", check=False).strip() == "disabled"
