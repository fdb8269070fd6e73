from __future__ import annotations

import pytest

from bench.advise.load import Load, read
from bench.slo import Slo
from operations.plan.config.refusal import Refusal


def test_words() -> None:
    assert read("users=8 prompt=1024 answer=256 ttft=2s") == Load(8, 1024, 256, Slo(ttft_s=2.0))
    assert read("users=1, best=decode, tpot=100ms e2e=30s") == Load(
        1, target=Slo(tpot_s=0.1, e2e_s=30.0), best="decode"
    )
    assert str(read("users=8")) == "8 users at once, 1,024 tokens in, 256 out"


@pytest.mark.parametrize(
    ("text", "problem", "remedy"),
    [
        ("", "says no number of users", 'e.g. "8 users chat"'),
        ("prompt=100", "says no number of users", 'e.g. "8 users chat"'),
        ("0 users", "users=`0` is no number of users", "1 to 4096"),
        ("8 users 1.5 in", "prompt=`1.5` is no number of tokens", "4k is 4,000"),
        ("8 users cached=120%", "cached=`120%` is no share of a prompt", "0% to 99%"),
        ("8 users each=0", "each=`0` is no speed", "each=10"),
        ("users=0", "users=`0` is no number of users", "1 to 4096"),
        ("users=-1", "users=`-1` is no number of users", "1 to 4096"),
        ("users=many", "users=`many` is no number of users", "1 to 4096"),
        ("users=9999999999", "is no number of users", "1 to 4096"),
        ("users=\u0664", "is no number of users", "1 to 4096"),
        ("users=8 prompt=0", "prompt=`0` is no number of tokens", "1 to 10000000"),
        ("users=8 answer=1.5", "answer=`1.5` is no number of tokens", "1 to 1000000"),
        ("users=8 promt=4", "`promt` is no word of a load", "did you mean `prompt`?"),
        ("users=8 x", "`x` is no word of a load", "they are: users, prompt"),
        ("8 users chatt", "`chatt` is no word of a load", "did you mean `chat`?"),
        ("10 lawyers with claude code", "`lawyers` is no word of a load", "write: `10 users coding agent`"),
        ("8 users of the house", "`the`, `house` are no words of a load", "they are: users, prompt"),
        ("good morning", "`good`, `morning` are no words of a load", 'e.g. "8 users chat"'),
        ("users=8 each=10 tpot=1s", "`each` and `tpot` are the same target", "say one of them"),
        ("users=8 users=9", "`users` is there twice", "say it once"),
        ("users=8 ttft=2", "`ttft=2` is no time", "a number above 0 with s or ms"),
        ("users=8 ttft=0s", "`ttft=0s` is no time", "a number above 0 with s or ms"),
        ("users=8 best=speed", "no figure is named `speed`", "one of: whole, ttft, decode, prefill"),
        ("users=8 best=decod", "no figure is named `decod`", "did you mean `decode`?"),
    ],
)
def test_bad_words(text: str, problem: str, remedy: str) -> None:
    with pytest.raises(Refusal) as refused:
        read(text)
    (finding,) = refused.value.findings
    assert finding.where == "load" and problem in finding.problem and remedy in finding.remedy


@pytest.mark.parametrize(
    ("text", "load"),
    [
        ("8 users", Load(8)),
        ("8 users, 4k in, 300 out", Load(8, 4000, 300)),
        ("users=8 prompt=1,024 answer=1k", Load(8, 1024, 1000)),
        ("one user 100k prompt", Load(1, 100_000)),
        ("12 people chatting", Load(12, 1000, 300)),
        ("4 coding agents ttft=2s", Load(4, 16_000, 500, Slo(ttft_s=2.0), cached=0.75)),
        ("2 users long documents prompt=60k", Load(2, 60_000, 500)),
        ("8 users each=10", Load(8, target=Slo(tpot_s=0.1))),
        ("3 users cached=50%", Load(3, cached=0.5)),
        ("12 developers", Load(12)),
        ("one developer", Load(1)),
        ("10 devs coding", Load(10, 16_000, 500, cached=0.75)),
        ("5 engineers with claude code", Load(5, 16_000, 500, cached=0.75)),
        ("a team of 12 chat", Load(12, 1000, 300)),
        ("our team of 12 developers chat", Load(12, 1000, 300)),
        ("an engineer", Load(1)),
        ("team of 6", Load(6)),
        ("12 team members", Load(12)),
    ],
)
def test_as_people_say_it(text: str, load: Load) -> None:
    assert read(text) == load


def test_without_users_and_with_a_target_their_number_is_what_is_asked() -> None:
    assert read("chat ttft=2s").asks_how_many and not read("8 users ttft=2s").asks_how_many


def test_a_load_that_was_cut_at_its_first_space_is_noticed() -> None:
    """What make takes for variables of its own."""
    made = {"MAKEFLAGS": " -- prompt=4k LOAD=users=8", "prompt": "4k"}
    with pytest.raises(Refusal, match="was cut at its first space: `prompt=4k`"):
        read("users=8", made)
    whole = {"MAKEFLAGS": " -- LOAD=users=8\\ prompt=4k"}
    assert read("users=8 prompt=4k", whole).prompt == 4000
    assert read("users=8", {"MAKEFLAGS": "", "prompt": "a shell's own"}).prompt == 1024


def test_every_fault_is_said() -> None:
    with pytest.raises(Refusal) as refused:
        read("users=0 prmpt=3 best=x ttft=2")
    assert len(refused.value.findings) == 4


def test_how_far_a_target_is_missed() -> None:
    load = Load(1, answer=11, target=Slo(ttft_s=2.0, e2e_s=10.0))
    assert load.missed(1.0, 0.1) == 0.5
    assert load.missed(1.0, 1.9) == 2.0
    assert Load(1).missed(99, 99) == 0
