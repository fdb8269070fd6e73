"""Values that are none and secrets in other tools' recipes: one line each, and no secret in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from operations.plan.config.refusal import Refusal
from operations.plan.config.secret import hidden
from tests.plan.test_formats import V1, V2, read
from tests.plan.test_formats_tools import remarked

SERVE = "command: vllm serve org/model\n"
KEY = "hf_abcdefghijklmnop"

#: A file's text, and the line that its owner gets.
REFUSED = [
    (f"{V2}min_nodes: true\n", "min_nodes: True is no number of nodes"),
    (f"{V2}min_nodes: 0\n", "min_nodes: 0 is no number of nodes"),
    (f"{V2}mode: [a]\n", "mode: \"['a']\" is none that sparkrun has"),
    (f"{V1}{SERVE}solo_only: maybe\n", "solo_only: 'maybe' is neither true nor false"),
    (f"{V1}{SERVE}solo_only: [true]\n", "solo_only: [True] is neither true nor false"),
    (V2.replace("registry.example/image:latest", "--privileged"), "container: '--privileged' is no name of an image"),
    (V2.replace("registry.example/image:latest", "[a]"), "container: ['a'] is no name of an image"),
    (V1.replace("container: vllm-node\n", "") + SERVE, "the key `container` is missing"),
    (V1.replace("org/model", "../..") + "command: vllm serve ../..\n", "its model is `../..`, which is no repository"),
    (V2.replace("org/model", "org/.."), "its model is `org/..`, which is no repository"),
    (
        f"{V1}command: vllm serve org/model --served-model-name a \u2014b\n",
        "name that the model is served under is `\u2014b`",
    ),
    (f"{V1}command: [vllm, serve]\n", "command: expected text, not list"),
    (f"{V2}command: 7\n", "command: expected text, not int"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=lambda value: str(value)[-50:])
def test_a_value_that_is_none_is_refused_in_a_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Refusal) as refused:
        read(tmp_path, text)
    assert said in str(refused.value) and len(refused.value.findings) == 1
    assert "\n" not in refused.value.findings[0].problem and len(refused.value.findings[0].problem) < 150


@pytest.mark.parametrize("value", ["true", '"Yes"', "'on'", "1", '"true"'])
def test_a_switch_in_quotes_counts(tmp_path: Path, value: str) -> None:
    assert read(tmp_path, f"{V1}{SERVE}cluster_only: {value}\n").topologies == ("cluster",)


@pytest.mark.parametrize("value", ["false", "", '""', "0", "null"])
def test_a_switch_that_is_off_is_off(tmp_path: Path, value: str) -> None:
    assert "solo" in read(tmp_path, f"{V1}{SERVE}cluster_only: {value}\n").topologies


@pytest.mark.parametrize("flag", ["-tp two", "--tensor-parallel-size=2.5", "-tp -1", "-tp 0"])
def test_a_number_of_gpus_that_is_none_is_an_error(tmp_path: Path, flag: str) -> None:
    recipe = read(tmp_path, f"{V1}command: vllm serve org/model {flag}\n")
    assert remarked(recipe, "is no number of GPUs", error=True)


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "OPENAI_API_KEY", "MY_SECRET", "AWS_SECRET_ACCESS_KEY", "hf_token", "DB_PASSWORD", "X_APIKEY"]
)
@pytest.mark.parametrize("text", [V1 + SERVE, V2], ids=["eugr", "sparkrun"])
def test_a_secret_in_env_is_left_out_with_a_word(tmp_path: Path, name: str, text: str) -> None:
    recipe = read(tmp_path, f"{text}env: {{{name}: s3cr3t, A: 1}}\n")
    assert recipe.env == {"A": "1"}
    assert remarked(recipe, f"env `{name}` is left out: it looks like a secret", error=False)
    assert "s3cr3t" not in str(recipe)


def test_a_token_by_another_name_is_told_by_how_it_begins(tmp_path: Path) -> None:
    recipe = read(tmp_path, f"{V1}{SERVE}env: {{LOGIN: {KEY}}}\n")
    assert not recipe.env and remarked(recipe, "env `LOGIN` is left out", error=False)
    assert KEY not in str(recipe)


def test_a_secret_that_the_command_exports_is_left_out_too(tmp_path: Path) -> None:
    recipe = read(tmp_path, f"{V1}command: 'export HF_TOKEN={KEY} X_TOKEN=$Y; vllm serve org/model'\n")
    assert not recipe.env and not recipe.exports and KEY not in str(recipe)


def test_whether_ranks_use_rdma_is_no_shell_s_to_fill_in(tmp_path: Path) -> None:
    """The plan reads it, and gives the ranks devices by it."""
    recipe = read(tmp_path, f"{V1}env:\n  NCCL_IB_DISABLE: ${{NO_RDMA:-1}}\ncommand: vllm serve org/model\n")
    assert not recipe.exports
    assert remarked(recipe, "env `NCCL_IB_DISABLE` is `${NO_RDMA:-1}`, to be filled in by a shell", error=True)


#: Commands with a secret in them, which no message and no flag may show.
LEAKS = [
    "vllm serve org/model --api-key s3cr3t",
    "vllm serve org/model --api-key=s3cr3t",
    "vllm serve org/model --hf-token s3cr3t",
    "vllm serve org/model --some-token s3cr3t",
    "vllm serve org/model --a 1 --password 's3cr3t x'",
    "huggingface-cli login --token s3cr3t && vllm serve org/model",
    f"curl -H 'Authorization: Bearer s3cr3t' http://x && vllm serve org/model --header {KEY}",
    "curl http://x?API_KEY=s3cr3t && vllm serve org/model",
]


@pytest.mark.parametrize("command", LEAKS)
def test_no_message_shows_a_secret(tmp_path: Path, command: str) -> None:
    recipe = read(tmp_path, f'{V1}command: "{command}"\n')
    assert "s3cr3t" not in str(recipe) and KEY not in str(recipe)
    assert [each for each in recipe.remarks if each.error or "is left out" in each.problem]


def test_a_key_in_defaults_is_not_shown_either(tmp_path: Path) -> None:
    recipe = read(tmp_path, V2.replace("port: 8000", "port: 8000, api_key: s3cr3t"))
    assert remarked(recipe, "`--api-key` is left out", error=False)
    assert "s3cr3t" not in str(recipe)


def test_a_file_that_can_t_be_read_is_not_quoted_with_its_secret(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refused:
        read(tmp_path, f"env:\n  HF_TOKEN: {KEY}: x\n")
    assert "is not YAML" in str(refused.value) and KEY not in str(refused.value)


def test_a_secret_in_tandem_s_own_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="env: `HF_TOKEN` looks like a secret"):
        read(tmp_path, f"name: x\nengine: vllm\nenv: {{HF_TOKEN: {KEY}}}\n")


@pytest.mark.parametrize(
    "text",
    [
        "--max-num-batched-tokens 8192",
        "--tokenizer org/x",
        "MAX_TOKENS=5",
        "TOKENIZERS_PARALLELISM=false",
        "--kv-key x",
    ],
)
def test_what_only_looks_like_a_secret_is_shown(text: str) -> None:
    assert hidden(text) == text
