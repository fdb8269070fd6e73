"""What the owner gives: each fault is one line with its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.profiles import PROFILES, profile
from bench.records import KNOWN
from bench.request import SETUPS, read
from bench.steps import steps
from operations.plan.config.refusal import Refusal
from operations.plan.plan import check_topology
from operations.plan.recipes.formats import load_recipe
from tests.plan.samples import knobs, one

BAD = {
    "PROFILE": {"quik": "did you mean `quick`?", "everything": "one of: standard, articles"},
    "USERS": {"0": "whole numbers from 1", "8,x": "`x` is no number", "-1": "`-1` is no number", "1.5": "`1.5` is no"},
    "REPEATS": {"0": "whole numbers from 1", "9999": "to 1000"},
    "PROMPT": {"0": "tokens of a prompt", "1k": "`1k` is no number"},
    "ANSWER": {"1": "from 2"},
    "SEED": {"abc": "no number of seed"},
    "SLO": {"fast=1s": "`fast=1s` is no part of a target", "ttft=soon": "`ttft=soon` is no time"},
    "TOPOLOGIES": {"solo clusters": "did you mean `cluster`?", "cluster/slurm": "no topology is named"},
    "TARGETS": {"proxies": "did you mean `proxy`?", "gpu": "one of: proxy, engines"},
    "FROM": {"moon": "one of: controller, head", "head controller": "more than one place"},
    "PROMPTS": {"/nowhere": "there is no file /nowhere"},
    "BOOK": {"/nowhere": "there is no file"},
    "TOKENIZER": {"/nowhere": "there is no folder"},
}


@pytest.mark.parametrize(
    ("name", "value", "told"), [(name, *each) for name, some in BAD.items() for each in some.items()]
)
def test_bad_input_is_one_line_that_names_it(name: str, value: str, told: str) -> None:
    with pytest.raises(Refusal) as refused:
        read({name: value})
    [finding] = refused.value.findings
    assert finding.where == f"--{name.lower()}" and told in f"{finding.problem}; {finding.remedy}"


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(Refusal) as refused:
        read({"USERS": "0", "SLO": "x", "PROFILE": "no"})
    assert {finding.where for finding in refused.value.findings} == {"--users", "--slo", "--profile"}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"PROFILE": "owner"}, "name a file with them"),
        ({"PROFILE": "quick", "PROMPTS": __file__}, "use --profile owner"),
        ({"PROFILE": "owner", "PROMPTS": __file__, "PROMPT": "64"}, "leave --prompt out"),
        ({"PROFILE": "articles", "PROMPT": "64 128"}, "one length"),
        ({"PROFILE": "articles", "FROM": "head"}, "runs on the controller"),
    ],
)
def test_knobs_that_do_not_go_together_are_refused(asked: dict[str, str], told: str) -> None:
    with pytest.raises(Refusal, match=told):
        read(asked)


def test_knobs_change_single_values_of_a_profile() -> None:
    found = read({"PROFILE": "standard", "USERS": "8,2 8", "REPEATS": "3", "PROMPT": "64 128", "ANSWER": "16"})
    assert (found.profile.users, found.profile.repeats) == ((8, 2), 3)
    assert (found.profile.prompts, found.profile.answer, found.profile.direct) == ((64, 128), 16, (8,))
    assert found.identity != read({"PROFILE": "standard"}).identity
    assert read({"SEED": "7", "RUN": "x"}).identity == read({}).identity


def test_the_owner_s_prompts_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo words\n")
    assert read({"PROFILE": "owner", "PROMPTS": str(tmp_path / "a.txt")}).prompts == ("one", "two words")
    (tmp_path / "a.jsonl").write_text('"one"\n{"prompt": "two\\nlines", "id": 2}\n')
    assert read({"PROFILE": "owner", "PROMPTS": str(tmp_path / "a.jsonl")}).prompts == ("one", "two\nlines")
    for text, told in (
        ('{"text": "x"}\n', "line 1 has no prompt"),
        ("{\n", "line 1 has no prompt"),
        ("\n", "no prompt in it"),
    ):
        (tmp_path / "a.jsonl").write_text(text)
        with pytest.raises(Refusal, match=told):
            read({"PROFILE": "owner", "PROMPTS": str(tmp_path / "a.jsonl")})


def test_a_prompt_longer_than_the_context_is_refused() -> None:
    with pytest.raises(Refusal, match=r"1,024 tokens and an answer of 128 are longer than the context of 1,024"):
        steps(profile("standard"), "solo", ["a"], ("proxy",), 1024)
    with pytest.raises(Refusal, match="does not say how long its context is"):
        steps(profile("long"), "solo", ["a"], ("proxy",), 0)
    # The last turn of a conversation has all that was said before it.
    with pytest.raises(Refusal, match="are longer than the context of 2,048"):
        steps(profile("agent"), "solo", ["a"], ("proxy",), 2048)


def test_long_prompts_fill_the_context_and_no_more() -> None:
    found = steps(profile("long"), "solo", ["a"], ("proxy",), 4096)
    lengths = {step.prompt for step in found if step.prompt}
    assert max(lengths) == 4096 - 64 and {step.which for step in found} >= {"p4032", KNOWN}
    assert len({step.name for step in found}) == len(found)


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_has_steps(name: str) -> None:
    found = steps(profile(name), "replicas", ["a", "b"], ("proxy", "engines"), 131072)
    assert {step.target for step in found} >= {"proxy"} and len({step.name for step in found}) == len(found)


@pytest.mark.parametrize("name", SETUPS)
def test_each_setup_can_be_deployed_where_stages_are_declared(name: str) -> None:
    given = {knob: int(value) if value.isdigit() else value for knob, value in SETUPS[name].items()}
    wanted = knobs(**{"topology": "cluster", "pipeline_parallel": 2, **given})
    check_topology(one(load_recipe("lab-tiny-llama"), wanted), ["spark-1", "spark-2"])
    assert wanted.stages == (2 if wanted.topology == "cluster" else 1)
    # And where groups are.
    pairs = knobs(**{"topology": "replicas", "nodes_per_replica": 2, **given})
    check_topology(one(load_recipe("lab-tiny-llama"), pairs), ["spark-1", "spark-2"])
