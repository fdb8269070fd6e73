"""Recipes of other tools: the same flags with the same values come out, or a word about what does not.

What a command means is asked of bash itself: its words, with the tool's placeholders filled in, are the oracle.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from operations.plan.config.refusal import Refusal, Remark
from operations.plan.recipes.formats import load_file, load_recipe
from operations.plan.recipes.formats.shell import split
from operations.plan.recipes.judge import lint
from operations.plan.recipes.recipe import Recipe
from operations.verbs import recipes
from tests.plan.samples import engine_of, knobs, make_plan, nodes

PEERS = sorted((Path(__file__).parent / "peers").glob("*.yaml"))
V1 = """\
recipe_version: "1"
name: Something (two nodes)
model: org/model
container: vllm-node
defaults: {port: 8000, host: 0.0.0.0, tensor_parallel: 2, max_model_len: 4096, yep: true}
"""
V2 = """\
recipe_version: "2"
model: org/model
runtime: vllm
container: registry.example/image:latest
defaults: {port: 8000, host: 0.0.0.0, tensor_parallel: 1, max_model_len: 4096}
"""


def read(tmp_path: Path, text: str, name: str = "sample") -> Recipe:
    file = tmp_path / f"{name}.yaml"
    file.write_text(text)
    return load_file(file)


def pinned(recipe: Recipe) -> Recipe:
    model, *further = (each.model_copy(update={"revision": each.revision or "0" * 40}) for each in recipe.models)
    return recipe.model_copy(update={"model": model, "further_models": tuple(further)})


def commands(recipe: Recipe) -> list[list[str]]:
    """The engine's words in start.sh of the head, for each topology that the recipe allows, as a shell reads them."""
    recipe = pinned(recipe)
    found = []
    for topology in recipe.topologies:
        wanted = knobs(topology=topology, executor="mp")
        planned = engine_of(make_plan(recipe, wanted, nodes(max(2, recipe.min_nodes), wanted)).head)
        assert planned
        start = next(file.content for file in planned.files if file.path.endswith("start.sh"))
        found.append(shlex.split(start.splitlines()[-1]))
    return found


def by_bash(script: str) -> list[str]:
    """The words that the engine gets, asked of bash."""
    wrapped = f'vllm() {{ printf \'%s\\0\' "$@"; }}\nsglang() {{ vllm "$@"; }}\n{script}'
    done = subprocess.run(["bash", "-c", wrapped], capture_output=True, check=True, text=True)
    return done.stdout.split("\0")[:-1]


def flags(words: list[str]) -> list[tuple[str, ...]]:
    """Words as flags with their values."""
    found: list[tuple[str, ...]] = []
    for word in words:
        if word.startswith("-"):
            found.append((word,))
        elif found:
            found[-1] += (word,)
    return found


OWNED = {"--host", "--port", "--tensor-parallel-size", "-tp", "--distributed-executor-backend", "--served-model-name"}
OWNED |= {"--model-path", "--tp", "--tp-size", "--enable-metrics"}


def errors(remarks: Iterable[Remark]) -> list[Remark]:
    """Less that the peers' mods are not here."""
    return [each for each in remarks if each.error and not re.match("the mod `mods/[^`]*` is not here", each.problem)]


@pytest.mark.skipif(not shutil.which("bash"), reason="asks bash")
@pytest.mark.parametrize("file", PEERS, ids=lambda path: path.stem)
def test_the_peers_own_recipes_mean_the_same_in_every_topology(file: Path) -> None:
    recipe = load_file(file)
    assert not errors(recipe.remarks)
    raw = __import__("yaml").safe_load(file.read_text())
    script = raw["command"].format(**{"model": raw["model"], **raw["defaults"]})
    meant = [each for each in flags(by_bash(script)) if each[0] not in OWNED]
    for command in commands(recipe):
        # A draft is a snapshot in the store, like the model.
        words = [re.sub(r"/hub/models--([\w.-]+?)--([\w.-]+)/snapshots/0+", r"\1/\2", word) for word in command]
        ran = [each for each in flags(words) if each[0] not in OWNED]
        joined = ("--nnodes", "--node-rank", "--master-addr", "--master-port", "--dist-init-addr")
        assert [each for each in ran if each[0] not in joined] == meant
        program = (
            ["exec", "sglang", "serve", "--model-path"] if recipe.engine == "sglang" else ["exec", "vllm", "serve"]
        )
        assert command[: len(program)] == program and command[len(program)].startswith("/hub/models--")


@pytest.mark.parametrize("file", PEERS, ids=lambda path: path.stem)
def test_the_peers_own_recipes_pass_the_lint(file: Path) -> None:
    recipe = load_file(file)
    for topology in recipe.topologies:
        assert not errors(lint(recipe, knobs(topology=topology)))


#: What follows `command:` in a recipe of eugr's, and the flags that come out.
AWKWARD_V1: dict[str, tuple[str, list[str]]] = {
    "folded": (">\n  vllm serve org/model\n  --a 1\n  --b 2\n", ["--a", "1", "--b", "2"]),
    "folded, stripped": (">-\n  vllm serve org/model\n  --a 1\n", ["--a", "1"]),
    "one line": ("vllm serve org/model --a 1\n", ["--a", "1"]),
    "quoted by YAML": ("'vllm serve org/model --json ''{{\"x\":1}}'' '\n", ["--json", '{"x":1}']),
    "backslashes": ("|\n  vllm serve org/model \\\n    --a 1 \\\n    --b 2\n", ["--a", "1", "--b", "2"]),
    "a blank behind a backslash": ("|\n  vllm serve org/model \\ \n    --a 1\n", ["--a", "1"]),
    "a backslash at the end": ("|\n  vllm serve org/model \\\n    --a 1 \\\n", ["--a", "1"]),
    "no backslashes": ("|\n  vllm serve org/model\n    --a 1\n    --b 2\n", ["--a", "1", "--b", "2"]),
    "an empty line within": ("|\n  vllm serve org/model \\\n    --a 1\n\n    --b 2\n", ["--a", "1", "--b", "2"]),
    "a comment before": ("|\n  # what it is\n  vllm serve org/model --a 1\n", ["--a", "1"]),
    "a comment within": (
        "|\n  vllm serve org/model \\\n    --a 1 \\\n    # --b 1 \\\n    --b 2\n",
        ["--a", "1", "--b", "2"],
    ),
    "a comment behind": ("|\n  vllm serve org/model --a 1 # fast\n", ["--a", "1"]),
    "comments at the end": ("|\n  vllm serve org/model --a 1\n    # --limit '{{\"x\":0}}'\n    # done\n", ["--a", "1"]),
    "a hash that is no comment": ("|\n  vllm serve org/model --a x#y --b '#z'\n", ["--a", "x#y", "--b", "#z"]),
    "JSON, doubled": (
        '|\n  vllm serve org/model --c \'{{"a":{{"b":[1,2]}},"n":{max_model_len}}}\'\n',
        ["--c", '{"a":{"b":[1,2]},"n":4096}'],
    ),
    "JSON, single braces": ('|\n  vllm serve org/model --c \'{"m": "mtp"}\'\n', ["--c", '{"m": "mtp"}']),
    "JSON in double quotes": (
        '|\n  vllm serve org/model --c "{{\\"m\\": \\"mtp\\"}}"\n',
        ["--c", '{"m": "mtp"}'],
    ),
    "JSON with blanks": ('|\n  vllm serve org/model --c \'{{"m": "a b"}}\'\n', ["--c", '{"m": "a b"}']),
    "equals signs": ("vllm serve org/model --a=1 --b='x y'\n", ["--a=1", "--b=x y"]),
    "both spellings": (
        "vllm serve org/model --max_num_seqs 4 --max-num-batched-tokens 8\n",
        ["--max_num_seqs", "4", "--max-num-batched-tokens", "8"],
    ),
    "the plan's, in any spelling": (
        "vllm serve org/model -tp 2 --tensor_parallel_size=2 --host=0.0.0.0 --port {port} -pp 1 --a 1\n",
        ["--a", "1"],
    ),
    "a flag twice": ("vllm serve org/model --a 1 --a 2\n", ["--a", "1", "--a", "2"]),
    "many values": ("vllm serve org/model --sizes 1 2 4 8 --a\n", ["--sizes", "1", "2", "4", "8", "--a"]),
    "a negative number": ("vllm serve org/model --seed -1 --a\n", ["--seed", "-1", "--a"]),
    "a dotted flag": ("vllm serve org/model --c-config.mode 3 -O3\n", ["--c-config.mode", "3", "-O3"]),
    "in a shell": ("bash -lc \"vllm serve org/model --a 'x y'\"\n", ["--a", "x y"]),
    "a switch turned off": ("vllm serve org/model --no-async-scheduling\n", ["--no-async-scheduling"]),
    "a boolean default": ("vllm serve org/model --a {yep}\n", ["--a", "True"]),
    "a variable before it": ("|\n  export A=1\n  B=2 vllm serve org/model --a 1\n", ["--a", "1"]),
    "exec and a path": ("exec /usr/local/bin/vllm serve org/model --a 1\n", ["--a", "1"]),
    "a wrapper of vLLM's": ("exec /opt/ds4-vllm-entrypoint serve org/model --a 1\n", ["--a", "1"]),
    "as a module": ("python3 -m vllm.entrypoints.openai.api_server --model org/model --a 1\n", ["--a", "1"]),
    "a variable that is defined": ("|\n  N=7\n  vllm serve org/model --a ${{N}} ${{M:-8}}\n", ["--a", "7", "8"]),
    "set and echo": ("|\n  set -e\n  echo starting\n  vllm serve org/model --a 1\n", ["--a", "1"]),
    "tabs": ('"vllm serve org/model\\t--a\\t1"\n', ["--a", "1"]),
    "a glob and a quoted tilde": ("vllm serve org/model --a 'original/*' '~/x'\n", ["--a", "original/*", "~/x"]),
    "a semicolon in JSON": ("vllm serve org/model --a 'x;y|z&'\n", ["--a", "x;y|z&"]),
}


@pytest.mark.parametrize("case", AWKWARD_V1)
def test_an_awkward_command_keeps_its_meaning(tmp_path: Path, case: str) -> None:
    command, expected = AWKWARD_V1[case]
    recipe = read(tmp_path, f"{V1}command: {command}")
    assert recipe.flag_argv == expected
    assert not [each for each in recipe.remarks if each.error]
    for words in commands(recipe):
        at = words.index(expected[0])
        assert words[at : at + len(expected)] == expected


def test_an_engine_keeps_the_name_that_it_is_called_by(tmp_path: Path) -> None:
    recipe = read(tmp_path, f"{V1}command: exec /opt/x/vllm serve org/model --a 1\n")
    for words in commands(recipe):
        assert words[:3] == ["exec", "/opt/x/vllm", "serve"]


def test_a_name_that_only_looks_like_a_secret_is_kept(tmp_path: Path) -> None:
    recipe = read(
        tmp_path, f"{V1}command: vllm serve org/model\nenv: {{TOKENIZERS_PARALLELISM: false, MAX_TOKENS: 5}}\n"
    )
    assert recipe.env == {"TOKENIZERS_PARALLELISM": "False", "MAX_TOKENS": "5"}


def test_what_bash_would_have_ended_is_said(tmp_path: Path) -> None:
    recipe = read(tmp_path, f"{V1}command: {AWKWARD_V1['a comment within'][0]}")
    assert any("bash would end the command at the comment" in each.problem for each in recipe.remarks)
    recipe = read(tmp_path, f"{V1}command: {AWKWARD_V1['no backslashes'][0]}")
    assert any("a backslash is missing" in each.problem for each in recipe.remarks)


#: Lines of a recipe of eugr's that change it, and a word of what is said. Errors stop a deploy, remarks do not.
SAID_V1: list[tuple[str, str, bool]] = [
    ("command: vllm serve org/model --a {missing}", "`{missing}` in the command has no default", True),
    ("command: vllm serve org/model -pp two", "`-pp two` is no number of stages", True),
    ("command: vllm serve org/model -dp 2", "`replicas` is the way to serve in parallel", True),
    ("command: vllm serve org/model --api-key x", "`--api-key` is left out", False),
    ('command: "pip install x && vllm serve org/model"', "the command runs `pip install x` as well", True),
    ("command: vllm serve org/model --a $UNKNOWN", "`$UNKNOWN` in `$UNKNOWN` is left to the container's shell", False),
    ("command: vllm serve $UNKNOWN", "`$UNKNOWN` in `$UNKNOWN` is nowhere defined", True),
    ("command: vllm serve org/model --a $(nproc)", "`$(nproc)` is a command in a word, and no start runs it", True),
    ("command: vllm serve org/model --a ~/x", "`~` in `~/x` is nowhere defined", True),
    ("command: vllm serve org/model --task classify", "no way for `/classify`", True),
    ("command: vllm serve org/model\nenv: {MASTER_ADDR: 10.0.0.1}", "env `MASTER_ADDR` is left out", False),
    ("command: vllm serve org/model extra", "`extra` is neither a flag nor a flag's value", True),
    ("command: vllm serve org/model\nenv: {A: '$(B)'}", "env `A` is `$(B)`", True),
    ("command: vllm serve org/model\nenv: {HF_TOKEN: hf_x}", "env `HF_TOKEN` is left out", False),
    ("command: vllm serve org/model\nenv: {NCCL_SOCKET_IFNAME: eth0}", "env `NCCL_SOCKET_IFNAME` is left out", False),
    ("command: vllm serve org/model\nenv: {RAY_AUTH_MODE: disabled}", "env `RAY_AUTH_MODE` is left out", False),
    ('command: "export RAY_AUTH_MODE=disabled && vllm serve org/model"', "env `RAY_AUTH_MODE` is left out", False),
    ('command: "export RAY_AUTH_MODE=$HOME && vllm serve org/model"', "env `RAY_AUTH_MODE` is left out", False),
    ("command: vllm serve org/model\nbuild_args: [--tf5]", "build_args --tf5 are for eugr's build-and-copy.sh", False),
    ("command: vllm serve org/model\nvetted: x", "`vetted` is no key of this format", False),
    ("command: vllm serve org/model\nmods: [mods/fix-x]", "the mod `mods/fix-x` is not here", True),
    ("command: vllm serve org/model\nmods: [{a: b}]", "`mods` has {'a': 'b'}, which is no name", True),
    ("command: vllm serve org/model\nname: Other", "`name` in line 7 is given twice, with different values", False),
    ("command: vllm serve org/model --served-model-name a b", "served under `a` alone, not under `b` as well", False),
    ("command: vllm serve other/model", "`model` is org/model, the command serves other/model", False),
    ("command: vllm serve /models/x", "the command serves the path /models/x, and `model` is org/model", True),
    ('command: "vllm serve org/model | tee /tmp/log"', "pipes its output into tee", False),
]


@pytest.mark.parametrize(("lines", "said", "error"), SAID_V1, ids=lambda value: str(value)[:60])
def test_nothing_is_dropped_in_silence(tmp_path: Path, lines: str, said: str, error: bool) -> None:
    recipe = read(tmp_path, f"{V1}{lines}\n")
    assert any(said in each.problem and each.error == error for each in recipe.remarks), list(map(str, recipe.remarks))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{V1}command: tabby serve x\n", "it serves with `tabby`"),
        (f"{V1}command: 'vllm serve \"org/model'\n", "a double quote is not closed"),
        (f"{V1}command: ''\n", "the key `command` is missing"),
        (
            f"{V1}command: vllm serve org/model\nsolo_only: true\ncluster_only: true\n",
            "solo_only and cluster_only at once",
        ),
        (f"{V1}command: vllm serve org/model\ndefaults: [1]\n", "defaults: expected names and values"),
        (V1.replace("model: org/model\n", "") + "command: vllm serve\n", "it names no model"),
        (V1.replace("org/model", "/models/x") + "command: vllm serve /models/x\n", "is no repository on the Hub"),
        (V2.replace("runtime: vllm", "runtime: atlas"), "its runtime is `atlas`"),
        (
            V2.replace("container: registry.example/image:latest\n", "").replace("runtime: vllm", "runtime: eugr-vllm"),
            "the key `container` is missing",
        ),
        (f"{V2}min_nodes: two\n", "min_nodes: 'two' is no number of nodes"),
        (f"{V2}runtime_config: 7\n", "runtime_config: expected names and values"),
        ("a: [", "is not YAML"),
        ("? [a]\n: b\n", "is not YAML"),
        ("- a\n", "is not a recipe"),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_what_can_t_be_a_recipe_is_refused_in_one_word(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Refusal) as refused:
        read(tmp_path, text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("lines", "topologies", "least"),
    [
        ("solo_only: true", ("solo", "replicas"), 1),
        ("cluster_only: true", ("cluster",), 2),
        ("solo_only: false", ("solo", "cluster", "replicas"), 1),
    ],
)
def test_where_a_recipe_of_eugr_s_may_run(tmp_path: Path, lines: str, topologies: Any, least: int) -> None:
    recipe = read(tmp_path, f"{V1}command: vllm serve org/model -tp {{tensor_parallel}}\n{lines}\n")
    assert (recipe.topologies, recipe.min_nodes) == (topologies, least)


@pytest.mark.parametrize(
    ("lines", "topologies", "least"),
    [
        ("max_nodes: 1", ("solo", "replicas"), 1),
        ("mode: solo", ("solo", "replicas"), 1),
        ("mode: cluster", ("cluster",), 2),
        ("min_nodes: 3", ("cluster",), 3),
        ("mode: auto", ("solo", "cluster", "replicas"), 1),
    ],
)
def test_where_a_recipe_of_sparkrun_s_may_run(tmp_path: Path, lines: str, topologies: Any, least: int) -> None:
    recipe = read(tmp_path, f"{V2}{lines}\n")
    assert (recipe.topologies, recipe.min_nodes) == (topologies, least)


def test_sparkrun_s_defaults_become_flags(tmp_path: Path) -> None:
    more = (
        "  {port: 8000, tensor_parallel: 2, max_model_len: 4096, enforce_eager: true, trust_remote_code: false,\n"
        '   enable_prefix_caching: false, speculative_config: \'{"method": "mtp"}\', limit_mm_per_prompt: {image: 2},\n'
        "   served_model_name: short, dtype: 'auto', ep_size: 2}\n"
    )
    recipe = read(tmp_path, V2[: V2.index("defaults:")] + "defaults:\n" + more)
    assert recipe.flag_argv == [
        *("--max-model-len", "4096", "--enforce-eager", "--no-enable-prefix-caching"),
        *("--speculative-config", '{"method": "mtp"}', "--limit-mm-per-prompt", '{"image":2}'),
        *("--dtype", "auto"),
    ]
    assert recipe.served_name == "short"


def test_sparkrun_s_placeholders_nest_and_its_json_may_have_single_braces(tmp_path: Path) -> None:
    text = V2 + (
        'command: |\n  vllm serve {model} --a {one} --c \'{"n": {max_model_len}, "m": {"x": 1}}\' --port {port}\n'
    )
    recipe = read(tmp_path, text.replace("max_model_len: 4096}", "max_model_len: 4096, one: 'x{two}', two: y}"))
    assert recipe.flag_argv == ["--a", "xy", "--c", '{"n": 4096, "m": {"x": 1}}']


def test_sparkrun_s_other_keys_are_named(tmp_path: Path) -> None:
    more = (
        "executor_config: {privileged: true, shm_size: 32gb}\nbenchmark: {framework: x}\nbuilder: eugr\n"
        "post_exec: [curl x]\npre_exec: ['mkdir -p /cache/x', 'pip install y']\noverrides: [{x: 1}]\nbrand_new: 1\n"
    )
    recipe = read(tmp_path, V2 + more)
    said = {each.problem: each.error for each in recipe.remarks}
    assert said["`executor_config` (privileged, shm_size)"] is False
    assert said["`benchmark` (framework)"] is False and said["`builder`"] is False and said["`post_exec`"] is False
    assert said["`brand_new`"] is False
    assert said["`overrides`"] is True and said["a hook before the start runs `pip install y`"] is False
    assert recipe.folders == ("/cache/x",) and recipe.hooks == ("pip install y",)


def test_variables_that_extend_the_container_s_own_are_left_to_its_shell(tmp_path: Path) -> None:
    command = (
        'command: |\n  export PATH="/opt/x/bin:${PATH:-}";\n  export LD_LIBRARY_PATH="/opt/x/lib:${LD_LIBRARY_PATH}";\n'
        '  export VLLM_HOST_IP="${NODE_IP}";\n  exec vllm serve {model} --a 1\n'
    )
    recipe = read(tmp_path, V2 + command)
    assert recipe.exports == {
        "PATH": "/opt/x/bin:${PATH:-}",
        "LD_LIBRARY_PATH": "/opt/x/lib:${LD_LIBRARY_PATH}",
    }
    model = recipe.model.model_copy(update={"revision": "0" * 40})
    wanted = knobs(topology="solo")
    engine = engine_of(make_plan(recipe.model_copy(update={"model": model}), wanted, nodes(1, wanted)).head)
    assert engine
    start = next(file.content for file in engine.files if file.path.endswith("start.sh"))
    done = subprocess.run(
        ["sh", "-c", start.replace("exec vllm", "echo $LD_LIBRARY_PATH $PATH; : vllm")],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.stdout.strip() == "/opt/x/lib: /opt/x/bin:/usr/bin:/bin"


def test_tensorrt_llm_in_sparkrun_s_format(tmp_path: Path) -> None:
    text = V2.replace("runtime: vllm", "runtime: trtllm").replace(
        "max_model_len: 4096}", "max_model_len: 4096, max_batch_size: 8, moe_backend: CUTLASS, kv_cache_dtype: fp8}"
    )
    recipe = read(tmp_path, text)
    assert recipe.engine == "tensorrt-llm" and recipe.topologies == ("solo", "replicas")
    assert recipe.flag_argv == ["--max_seq_len", "4096", "--max_batch_size", "8"]
    assert recipe.config == {"moe_config": {"backend": "CUTLASS"}, "kv_cache_config": {"dtype": "fp8"}}
    assert recipe.served_name == "model"


def test_a_tensorrt_llm_recipe_for_a_cluster_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="tensorrt-llm runs in solo, replicas here"):
        read(tmp_path, V2.replace("runtime: vllm", "runtime: trtllm") + "min_nodes: 2\n")


def test_the_version_of_a_release_s_image_is_known(tmp_path: Path) -> None:
    image = "vllm/vllm-openai:v0.17.1-cu130@sha256:" + "a" * 64
    recipe = read(tmp_path, V2.replace("registry.example/image:latest", image))
    assert recipe.engine_version == "0.17.1"


def test_a_recipe_by_its_path_and_one_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(f"{V1}command: vllm serve org/model\n")
    assert load_recipe(str(tmp_path / "x.yaml")).format == "eugr"
    with pytest.raises(Refusal, match="there is no such file here"):
        load_recipe(str(tmp_path / "y.yaml"))


def test_the_listing_goes_on_behind_a_bad_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a-bad.yaml").write_text("a: [")
    (tmp_path / "b-binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "c-good.yaml").write_text(f"{V1}command: vllm serve org/model\n")
    (tmp_path / "d-refused.yaml").write_text(f"{V1}command: vllm serve org/model -dp 2\n")
    assert recipes.main(str(tmp_path)) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert "refused" in rows["a-bad"] and "refused" in rows["b-binary"] and "refused" in rows["d-refused"]
    assert "ok" in rows["c-good"] and "eugr" in rows["c-good"]
    assert re.search(r"2 recipes: remark: it names no revision of org/model; .*\(c-good, d-refused\)", out)


def test_a_folder_that_is_none_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recipes.main(str(tmp_path / "none")) == 2
    assert "is no folder; `tandem recipes --dir FOLDER` names one with recipes in it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a 'b c' \"d e\"", ["a", "b c", "d e"]),
        ("a\\ b", ["a b"]),
        ("a\"b\"'c'", ["abc"]),
        ('"a\\"b" \'c"d\'', ['a"b', 'c"d']),
        ('a ""', ["a", ""]),
    ],
)
def test_words_are_read_as_bash_reads_them(text: str, words: list[str]) -> None:
    assert [word.text for word in split(text).commands[0]] == words
