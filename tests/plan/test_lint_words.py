"""A recipe whose image has no known version is held against all releases; what no parser would take is found."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from operations.plan.config.refusal import Remark
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.formats.serve import served
from operations.plan.recipes.judge import lint
from operations.plan.recipes.lint.near import distance, hint, slip
from operations.plan.recipes.lint.subject import releases
from operations.wire.model import Vocabulary
from tests.plan.samples import knobs

PLAIN = load_recipe("nemotron-3-super-nvfp4-marlin").model_copy(update={"engine_version": None, "env": {}})
NEWEST = list(releases("vllm"))[-1]
ALL = f"vLLM 0.17.1 to {NEWEST}"


def said(
    words: str = "", *, env: dict[str, str] | None = None, image: Vocabulary | None = None, **changes: Any
) -> list[Remark]:
    """What is said of a command's words (with blanks between them), and not of the recipe that has none of them."""
    made = served(f"vllm serve org/model {shlex.join(words.split(' ')) if words else ''}", {}).flags
    recipe = PLAIN.model_copy(update={"flags": tuple(made), "env": env or {}} | changes)
    without = lint(PLAIN.model_copy(update={"flags": ()} | changes), knobs(executor="mp"), image=image)
    return [each for each in lint(recipe, knobs(executor="mp"), image=image) if each not in without]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--gpu-memory-utilisation 0.8", "did you mean `gpu-memory-utilization`?"),
        ("--tool-call-parsers hermes", "did you mean `tool-call-parser`?"),
        ("--enable-prefix-caching True", "enable-prefix-caching is a switch and takes no value, not `True`"),
        ("--enable-prefix-caching=false", "not `false` (vLLM 0.17.1 to"),
        ("--enable-prefix-caching false", "write --no-enable-prefix-caching for it"),
        ("--no-enable-prefix-caching 1", "is a switch and takes no value"),
        ("--max-num-seqs 2.5", "max-num-seqs takes a whole number, not `2.5`"),
        ("--max-model-len 32,768", "max-model-len takes a whole number (or 25.6k, auto), not `32,768`"),
        ("--max-num-batched-tokens 1.5K", "not `1.5K`"),
        ("--gpu-memory-utilization high", "gpu-memory-utilization takes a number, not `high`"),
        ("--max-num-seqs 0", "max-num-seqs is at least 1, not 0"),
        ("--kv-cache-dtype ['fp8']", "kv-cache-dtype takes a word, not the list"),
        ("--chat-template null", "chat-template takes a word, not `null`"),
        ("--load-format True", "load-format takes a word, not `True`"),
        ("--load-format None", "load-format takes a word, not `None`"),
        ('--speculative-config {"method":"mtp",}', "is no JSON"),
        ("--hf-overrides {a}", "hf-overrides: `{a}` is no JSON"),
        ("--max-num-seqs.x 1", "it has no parts"),
        ("--compilation-config.level", "`--compilation-config.level` has no value"),
        ("--reasoning-parser deepsek_r1", "has `deepsek_r1`; did you mean `deepseek_r1`?"),
        ("--max-model-len {ctx}", "max-model-len: `{ctx}` is left over in `{ctx}`; write its value"),
        ("--load-format \u201cauto\u201d", "`\u201c` (U+201C) in `\u201cauto\u201d` is no ASCII; write `\"auto\"`"),
        ("--load-format auto \u2014enforce-eager", "write `-enforce-eager`"),
        ("--max\u2011num\u2011seqs 8", "`\u2011` (U+2011)"),
        ("--load-format auto\u200b", "a sign that can't be seen (U+200B)"),
        ("--dtype auto\u00a0", "write `auto `"),
    ],
)  # fmt: skip
def test_what_no_release_would_take_is_an_error_without_a_version(words: str, expected: str) -> None:
    found = said(words)
    assert any(expected in str(each) for each in found if each.error), found


@pytest.mark.parametrize(
    "words",
    [
        "--max-model-len 128k --max-num-batched-tokens 8K --kv-cache-memory-bytes 20G",
        "--max-model-len auto --max-num-seqs 8 --seed 0 --gpu-memory-utilization 0.8",
        "--max-model-len=-1",
        "--kv-cache-memory-bytes None --tool-call-parser None --chat-template None",
        "--reasoning-parser none",
        "--cudagraph-capture-sizes 1 2 4",
        '--compilation-config {"cudagraph_mode":"FULL"} -cc.mode 3 -O3',
        "--compilation-config.cudagraph_mode FULL",
        '--hf-overrides {"a":{"b":1}}',
        "--no-enable-prefix-caching --enforce-eager",
        "--attention-backend flash_attn --moe-backend Flashinfer-Cutlass",
        "--attention-backend auto",
        "--hf-token",
        '--default-chat-template-kwargs {"note":"it\u2019s"}',
        "--chat-template {{messages}}",
        "--load-format fastsafetensors --quantization modelopt_fp4",
        "--tool-call-parser {model}/parser.py --tool-parser-plugin {model}/parser.py",
    ],
)
def test_what_some_release_takes_is_fine(words: str) -> None:
    found = [str(each) for each in said(words) if "freezes" not in str(each)]
    assert not found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--mxfp4-backend CUTLASS", "no vLLM from 0.17.1 to"),
        ("--tool-call-parser deepseek_v9", "has `deepseek_v9`"),
        ("--moe-backend mxfp4_spark", "or it is one of this image's own"),
    ],
)  # fmt: skip
def test_a_build_may_have_words_of_its_own_as_long_as_its_version_is_not_known(words: str, expected: str) -> None:
    found = said(words)
    assert found and not any(each.error for each in found)
    assert expected in str(found[0]) and "or it is one of this image's own" in str(found[0])
    assert any(each.error for each in said(words, engine_version="0.32.0"))


def test_the_image_that_has_a_word_of_its_own_is_believed() -> None:
    told: Any = releases("vllm")["0.32.0"]
    told = told | {"flags": told["flags"] | {"mxfp4-backend": {"takes": "word", "choices": ["CUTLASS"]}}}
    assert not said("--mxfp4-backend CUTLASS", image=told)
    found = said("--mxfp4-backend CUTLAS", image=told)
    assert "(the image) knows no `CUTLAS`; did you mean `CUTLASS`?" in str(found[0]) and found[0].error


def test_a_flag_that_is_gone_and_one_that_is_cut_short_are_told() -> None:
    (gone,) = said("--swap-space 4")
    assert not gone.error and "flag `--swap-space` is gone since vLLM 0." in str(gone)
    (short,) = said("--max-num-batched 8192")
    assert not short.error and "--max-num-batched-tokens is meant by `--max-num-batched`" in str(short)
    assert any(each.error for each in said("--max-num 8", engine_version="0.32.0")), "several begin with it"


def test_a_variable_that_would_end_the_start_is_an_error() -> None:
    (number,) = said(env={"VLLM_ENABLE_V1_MULTIPROCESSING": "True"}, engine_version="0.32.0")
    assert number.error and "takes a whole number, not `True` (vLLM 0.32.0)" in str(number)
    assert said(env={"VLLM_ENABLE_V1_MULTIPROCESSING": "True"})[0].error
    assert not said(env={"VLLM_ENABLE_V1_MULTIPROCESSING": "1"})
    assert said(env={"VLLM_LOGGING_LEVEL": "{level}"})[0].error
    assert said(env={"VLLM_LOGGING_LEVEL": "\u201cINFO\u201d"})[0].error


def test_what_a_reader_has_said_of_a_placeholder_is_not_said_again() -> None:
    told = Remark(True, "`{ctx}` in the command has no default", "add `ctx` to `defaults`")
    assert not any("left over" in str(each) for each in said("--max-model-len {ctx}", remarks=(told,)))


def test_a_build_that_counts_from_nothing_has_no_version() -> None:
    told = releases("vllm")[NEWEST] | {"version": "0.1.dev19754"}
    assert not any("crashes" in str(each) for each in said("--enforce-eager", image=told)), "0.17 is older"
    assert any("vLLM 0.1.dev19754 (the image) has no flag" in str(each) for each in said("--swap-space 4", image=told))


@pytest.mark.parametrize(
    ("version", "judges", "error"),
    [
        ("0.20.3", "0.20.2 to 0.21.0", True),
        ("0.16.0", f"0.17.1 to {NEWEST}", False),
        ("0.99.0", f"0.17.1 to {NEWEST}", False),
    ],
)
def test_releases_around_a_version_stand_in_for_it_where_it_lies_between_two(
    version: str, judges: str, error: bool
) -> None:
    (found,) = (each for each in said("--mxfp4-backend CUTLASS", engine_version=version) if "mxfp4" in str(each))
    assert f"no vLLM from {judges} has a flag" in str(found) and found.error == error


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("maxmodellen", "max-model-len"),
        ("model-len", "max-model-len"),
        ("model-max-len", "max-model-len"),
        ("max-model-length", "max-model-len"),
        ("kv-cache-dtyp", "kv-cache-dtype"),
        ("glm52", ""),
        ("mxfp4-backend", ""),
        ("mla-backend", ""),
        ("max-model-len", ""),
    ],
)
def test_a_slip_is_told_from_a_word_of_its_own(word: str, meant: str) -> None:
    assert slip(word, ["moe-backend", "max-model-len", "kv-cache-dtype", "glm47"]) == meant


def test_a_hint_is_a_slip_s_word_or_one_that_begins_alike_and_nothing_far_fetched() -> None:
    known = ["hermes", "cohere_command3", "qwen3_coder"]
    assert hint("cohere", known, "-") == "did you mean `cohere_command3`?"
    assert hint("qwen3_code", known, "-") == "did you mean `qwen3_coder`?"
    assert hint("zephyr", known, "-") == "-"


def test_a_distance_counts_two_letters_swapped_as_one() -> None:
    assert distance("modle", "model") == 1 and distance("abc", "") == 3
