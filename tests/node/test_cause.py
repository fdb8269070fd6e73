"""Why a unit does not serve, from logs as engines write them."""

from __future__ import annotations

from typing import Any

import pytest

from operations.node.unit import cause

CABLE_OUT = "in a ring each cable is needed, plug it in at both ends"
DOWN: Any = {"ActiveState": "failed", "Result": "start-limit-hit", "NRestarts": "6"}


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (
            [
                "(APIServer pid=7) Traceback (most recent call last):",
                "(APIServer pid=7)   File \"/opt/vllm/bin/vllm\", line 8, in <module>",
                "(APIServer pid=7) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
                "(APIServer pid=7)   Value error, max_model_len is too large",
            ],
            "(APIServer pid=7) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        ),
        (
            ["RuntimeError: old", "waiting (60 s so far): port 8001 is taken by users:((\"nc\",pid=7,fd=3)); stop it"],
            'waiting (60 s so far): port 8001 is taken by users:(("nc",pid=7,fd=3)); stop it',
        ),
        (["all well", "docker: Error response from daemon: No such image: x"],
         "docker: Error response from daemon: No such image: x"),
        (["tandem: no token: none in 3 s: the engine's container is killed, systemd starts it anew"],
         "no token: none in 3 s: the engine's container is killed, systemd starts it anew"),
        (["OSError: the first", "OSError: the last"], "OSError: the last"),
        (["all well"], "exit-code"),
    ],
)  # fmt: skip
def test_the_line_that_says_why(log: list[str], why: str) -> None:
    assert cause.main("tandem-engine", {"ActiveState": "activating", "Result": "exit-code"}, log) == why


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (["docker: Error response from daemon: No such container: tandem-engine", "tandem: waiting for 1 more ranks"],
         "waiting for 1 more ranks"),
        (["tandem: rank 0 at 192.168.177.11:26001 does not answer yet: [Errno 113] No route to host"],
         "rank 0 at 192.168.177.11:26001 does not answer yet: [Errno 113] No route to host"),
        (["tandem: rank 1 ended, before the others came"], "rank 1 ended, before the others came"),
        (["tandem: rank 1 is here", f"tandem: spark-2 (enp1s0f0np0) has no carrier: {CABLE_OUT}"],
         f"spark-2 (enp1s0f0np0) has no carrier: {CABLE_OUT}"),
        (["tandem: waiting for 1 more ranks", "tandem: all ranks are here: starting", "INFO loading shard 3 of 17"],
         "no error in the log of this start: it may still be loading"),
        (["OSError: of the meeting", "tandem: all ranks are here: starting", "ValueError: of this start"],
         "ValueError: of this start"),
        (["(APIServer pid=8) WARNING 11-23 [system_utils.py:255] This can cause errors like `OSError: [Errno 24] x`"],
         "no error in the log of this start: it may still be loading"),
        (["(RayWorkerProc pid=120) [W1123 01:57:01 socket.cpp:207] [c10d] The hostname cannot be retrieved. err=-3"],
         "no error in the log of this start: it may still be loading"),
    ],
)  # fmt: skip
def test_of_an_engine_that_runs_and_does_not_answer_it_says_what_this_start_waits_for(log: list[str], why: str) -> None:
    assert cause.main("tandem-engine", {"ActiveState": "active", "Result": "success"}, log) == why


def test_a_unit_that_stays_down_says_after_how_many_starts_and_what_to_do() -> None:
    said = cause.main(
        "tandem-engine", DOWN, ["ValueError: no such model", "restart 5 in a row: waiting 120 s before it"]
    )
    assert said == "it stays down after 6 starts: ValueError: no such model. Mend it, then `tandem apply`"


def test_of_several_starts_the_lines_around_an_engine_s_own_last_word_are_shown() -> None:
    said = ["(APIServer pid=7) ValidationError: 1 validation error: ", "  Value error, 9999999 is too large"]
    start = ["Starting tandem-engine.service", *("loads" for _ in range(40))]
    told, shown = cause.excerpt([*start, *said, *start, "tandem: waiting for 1 more ranks"], 25)
    assert told == said[0].strip() and len(shown) == 25 and shown[12:14] == said
    assert cause.excerpt(["a", "b", "c"], 2) == ("", ["b", "c"])
    assert cause.excerpt([], 2) == ("", [])


def test_of_a_log_short_lines_are_shown_and_none_of_the_clearing_before_a_start() -> None:
    log = ["one", "two", "Error: No such container: tandem-engine", "non-default args: " + "x" * 3000]
    log += ["Error response from daemon: No such container: tandem-engine"]
    assert cause.shown(log, 2) == ["two", "non-default args: " + "x" * 182 + "..."]
