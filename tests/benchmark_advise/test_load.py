from __future__ import annotations

import pytest

from bench.advise.load import Load, read
from bench.slo import Slo
from operations.plan.refusal import Refusal


def test_words() -> None:
    assert read("users=8 prompt=1024 answer=256 ttft=2s") == Load(8, 1024, 256, Slo(ttft_s=2.0))
    assert read("users=1, best=decode, tpot=100ms e2e=30s") == Load(
        1, target=Slo(tpot_s=0.1, e2e_s=30.0), best="decode"
    )
    assert str(read("users=8")) == "8 users at once, 1,024 tokens in, 256 out"


@pytest.mark.parametrize(
    ("text", "problem", "remedy"),
    [
        ("", "says no number of users", 'e.g. LOAD="users=8'),
        ("prompt=100", "says no number of users", 'e.g. LOAD="users=8'),
        ("users=0", "users=`0` is no number of users", "1 to 4096"),
        ("users=-1", "users=`-1` is no number of users", "1 to 4096"),
        ("users=many", "users=`many` is no number of users", "1 to 4096"),
        ("users=9999999999", "is no number of users", "1 to 4096"),
        ("users=\u0664", "is no number of users", "1 to 4096"),
        ("users=8 prompt=0", "prompt=`0` is no number of tokens", "1 to 10000000"),
        ("users=8 answer=1.5", "answer=`1.5` is no number of tokens", "1 to 1000000"),
        ("users=8 promt=4", "`promt` is no word of a load", "did you mean `prompt`?"),
        ("users=8 x", "`x` is no word of a load", "they are: users, prompt"),
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
    assert finding.where == "LOAD" and problem in finding.problem and remedy in finding.remedy


def test_every_fault_is_said() -> None:
    with pytest.raises(Refusal) as refused:
        read("users=0 prmpt=3 best=x ttft=2")
    assert len(refused.value.findings) == 4


def test_how_far_a_target_is_missed() -> None:
    load = Load(1, answer=11, target=Slo(ttft_s=2.0, e2e_s=10.0))
    assert load.missed(1.0, 0.1) == 0.5
    assert load.missed(1.0, 1.9) == 2.0
    assert Load(1).missed(99, 99) == 0
