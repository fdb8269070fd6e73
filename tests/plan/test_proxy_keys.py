"""What `tandem key` is given: read strictly, one line for what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from operations.plan.config.refusal import Refusal
from operations.plan.services.proxy_keys import named, wish


def test_a_name_is_enough() -> None:
    nothing = {"within_s": None, "until": None, "requests": None, "tokens": None}
    assert wish("alice", "", "", "") == {"name": "alice", **nothing}


@pytest.mark.parametrize(
    ("expires", "within_s"), [("1m", 60), ("45m", 2700), ("12h", 43200), ("30d", 2592000), (" 2w ", 1209600)]
)
def test_an_end_is_a_time_from_now(expires: str, within_s: float) -> None:
    assert wish("alice", expires, "", "")["within_s"] == within_s


def test_or_a_day_in_utc() -> None:
    assert wish("alice", "2027-01-31", "", "")["until"] == datetime(2027, 1, 31, tzinfo=UTC).timestamp()


def test_limits_are_numbers() -> None:
    read = wish("a.b-c_1", "", "4", " 20000 ")
    assert (read["requests"], read["tokens"]) == (4, 20000)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "the name is empty"),
        ("Alice", "'Alice' is no name for a key"),
        ("alice smith", "no name for a key"),
        ("-alice", "no name for a key"),
        ("../../etc/passwd", "no name for a key"),
        ("alice\n", "no name for a key"),
        ("ålice", "no name for a key"),
        ("a" * 33, "no name for a key"),
        ("$(reboot)", "no name for a key"),
        ("owner", "is what the log calls somebody else"),
        ("nobody", "is what the log calls somebody else"),
    ],
)
def test_a_name_that_is_none_is_refused(name: str, said: str) -> None:
    with pytest.raises(Refusal) as refused:
        named(name)
    (finding,) = refused.value.findings
    assert said in finding.problem and finding.remedy and "\n" not in finding.problem


@pytest.mark.parametrize(
    "expires",
    ["soon", "30", "30y", "-1d", "0d", "1.5d", "4000d", "999999999w", "2027-02-30", "2027-1-1", "٣d", "1d\n2d"],
)
def test_an_end_that_is_none_is_refused(expires: str) -> None:
    with pytest.raises(Refusal) as refused:
        wish("alice", expires, "", "")
    (finding,) = refused.value.findings
    assert "--expires" in finding.problem


@pytest.mark.parametrize("word", ["REQUESTS", "TOKENS"])
@pytest.mark.parametrize("said", ["0", "-1", "1.5", "many", "1e3", "0x10", "٣", "1" + "0" * 13, "4 4"])
def test_a_limit_below_one_or_none_at_all_is_refused(word: str, said: str) -> None:
    with pytest.raises(Refusal) as refused:
        wish("alice", "", **{"requests": "", "tokens": "", word.lower(): said})
    (finding,) = refused.value.findings
    assert f"--{word.lower()} {said!r} is no limit" in finding.problem and "1 or more" in finding.remedy


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(Refusal) as refused:
        wish("", "never", "0", "0")
    assert [finding.problem.split()[:2] for finding in refused.value.findings] == [
        ["the", "name"],
        ["--expires", "'never'"],
        ["--requests", "'0'"],
        ["--tokens", "'0'"],
    ]
