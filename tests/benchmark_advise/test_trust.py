"""An advice says what is computed, and an error only where it was found for such a load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.advise.load import Load, read
from bench.advise.options import Outlook
from bench.advise.remark import against
from bench.advise.tell import who
from bench.advise.trust import errors, kind_of, off, sure
from operations.plan.recipes.formats import load_recipe
from tests.benchmark_advise.test_command import advise
from tests.benchmark_advise.test_evidence import SOLO
from tests.benchmark_advise.test_options import LOAD, asked, row
from tests.plan.samples import ROOT, knobs

AUTO = "nemotron-3-super-nvfp4-auto"


def said(**environment: str) -> str:
    told = advise(**environment)
    assert told.returncode == 0, told.stderr
    return " ".join(told.stdout.split())


def seen(load: Load) -> Outlook:
    """Of solo, whose recipe lets ten in, and of whom eight and ten users were measured."""
    rows = dict(row(1000, 50, 4.0, SOLO))
    for figure, values in row(1000, 60, 5.0, SOLO, users=10).items():
        rows[figure] = {**rows[figure], **values}
    return asked(rows).outlook(SOLO, load)


def test_who_waits_was_not_measured() -> None:
    told = said(LOAD="12", DETAIL="1")
    assert "measured by others" not in told and "it was measured" not in told
    source = "from [A], 4 users and 128 tokens out, with nemotron-3-super-nvfp4-cutlass on vllm 0.17.2rc1.dev0"
    assert f"solo: computed, {source}, and a computed wait" in told
    assert "Error unknown: no table has users who wait for a turn." in told


def test_what_is_measured_what_lies_between_and_what_waits() -> None:
    kinds = [kind_of(seen(LOAD.at(users))) for users in (8, 9, 10, 11)]
    assert kinds == ["measured here", "between rows measured here", "measured here", "computed with a wait"]
    assert [off(seen(LOAD.at(users))) for users in (8, 9, 11)] == ["", "", "error unknown"]
    assert not seen(LOAD.at(11)).repeats and seen(LOAD.at(10)).repeats


@pytest.mark.parametrize(
    ("load", "lacks"),
    [
        (Load(2, 4096, 128), "several users at prompts above 1,024 tokens"),
        (Load(1, 4096, 128), "one user at prompts above 1,024 tokens, but for three figures at 46,000 (151% at worst)"),
        (Load(2, 1024, 128, cached=0.5), "cached prompts"),
        (Load(11, 4096, 128), "several users at prompts above 1,024 tokens or users who wait for a turn"),
    ],
)
def test_an_error_of_another_load_is_not_told(load: Load, lacks: str) -> None:
    outlook = seen(load)
    assert sure(outlook).endswith(", error unknown") and "%" not in sure(outlook)
    (line,) = errors([outlook])
    told = " ".join(line.split())
    assert told.startswith(
        f"Error unknown: no table has {lacks}. Nearest that is known: at 1,024 tokens without a wait 10%"
    )
    assert ("at 4,096 on two H200 13% as a rule, 214% at worst" in told) == (load.prompt > 1024)


def test_an_error_that_holds_is_told() -> None:
    outlook = seen(Load(2, 1024, 128))
    assert sure(outlook) == "computed, off by 10% as a rule, 77% at worst"
    assert list(errors([outlook])) == ["Figures that are computed are off by 10% as a rule, 77% at worst."]


def test_the_error_of_agents_is_unknown_and_that_is_said_once() -> None:
    told = said(LOAD="4 coding agents")
    assert "; error unknown. Nobody has measured this" in told and told.count("Error unknown") == 1
    assert "no table has several users at prompts above 1,024 tokens or cached prompts" in told
    assert "off by" not in told and "figures are good to" not in told


def test_a_wait_is_no_reason_against_a_plan() -> None:
    told = against(load_recipe(AUTO), knobs(topology="solo"), 2, Path("/nonexistent"))
    assert "topology=solo is behind at every load that was measured" in told and "for 4 (published" in told


def test_a_target_ranks_recipes_and_numbers_of_nodes() -> None:
    told = advise(LOAD="chat ttft=2s each=10", RECIPE="any")
    assert told.returncode == 0 and told.stdout.startswith("Up to ")
    assert "first token within 2.0 s, 10.0 tokens a second each" in told.stdout
    rows = told.stdout.partition("how sure\n")[2].partition("All ask")[0].splitlines()
    counts = [int(found[1]) for each in rows if (found := re.search(r"  (\d+) users?  ", each))]
    assert len(counts) > 5 and counts == sorted(counts, reverse=True)
    assert told.stdout.startswith(f"Up to {counts[0]} users with {rows[0].split()[0]}, ")
    pairs = advise(LOAD="chat ttft=2s", NODES="2 4").stdout
    assert pairs.startswith("Up to 12 users with 4 Sparks, replicas:\n  tandem apply topology=replicas\n")
    assert advise(LOAD="chat ttft=1ms", RECIPE="any").stdout.startswith("Nobody: first token within 1 ms is missed")


def test_who_counts_as_a_user() -> None:
    assert not list(who(read("1 user")))
    assert list(who(read("12 users"))) == ["12 users at once: of a team, those who ask at the same moment"]
    assert list(who(read("12 coding agents"))) == [
        "12 users at once: of a team, those whose agents ask at the same moment"
    ]


def test_the_manual_s_example_is_what_is_said() -> None:
    page = (ROOT / "docs/advise.md").read_text()
    example = page.partition("## tandem advise\n\n```\n")[2].partition("```")[0]
    assert example and advise(LOAD="8 users").stdout.startswith(f"{example}\n")
