"""What a node tells the page of its past, out of its own records: deploys, who began one, and units' lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.node.shipped import part

happened = part("exporter", "happened")


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What it says, with these records."""
    monkeypatch.setattr(happened, "SERVED", tmp_path / "served.json")
    monkeypatch.setattr(happened, "LOCK", tmp_path / "lock")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    journal = tmp_path / "journalctl"

    def say(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        (tmp_path / "lines").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        journal.write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/asked\ncat {tmp_path}/lines\n')
        journal.chmod(0o755)
        monkeypatch.setattr(happened, "_kept", (0.0, b""))
        found: list[dict[str, Any]] = json.loads(happened.as_json())["events"]
        return found

    return say


def test_a_deploy_says_what_it_changed_and_no_value_that_is_the_owner_s(told: Any, tmp_path: Path) -> None:
    first = {"recipe": "a", "topology": "solo", "hub_token_file": "/root/token", "accept_risk": []}
    second = first | {"topology": "cluster", "hub_token_file": "/home/me/other"}
    plans = [{"when": f"2026-11-2{day} 10:00", "knobs": knobs} for day, knobs in ((3, first), (4, second))]
    (tmp_path / "served.json").write_text(json.dumps(plans))
    (tmp_path / "lock").write_text(
        json.dumps({"owner": "me@desk", "since": "2026-11-24 09:00:00 CET", "what": "bench"})
    )
    assert [each["text"] for each in told([])] == [
        "a, cluster serves; changed: hub_token_file, topology solo → cluster",
        "bench begun by me@desk",
        "a, solo serves",
    ]


def test_a_deploy_of_several_models_says_each_and_whose_word_changed(told: Any, tmp_path: Path) -> None:
    one = {"recipe": "a", "topology": "cluster", "models": {}}
    chat, coder = {"recipe": "a"}, {"recipe": "b", "topology": "solo", "memory_gib": 24.0}
    two = one | {"models": {"chat": chat, "coder": coder}}
    other = one | {"models": {"chat": chat | {"topology": "replicas"}, "coder": coder | {"memory_gib": 30.0}}}
    plans = [{"when": f"2026-11-2{day} 10:00", "knobs": knobs} for day, knobs in ((2, one), (3, two), (4, other))]
    (tmp_path / "served.json").write_text(json.dumps(plans))
    newest, middle, oldest = (each["text"] for each in told([]))
    assert newest == (
        "chat: a, replicas; coder: b, solo serve; changed: models.chat.topology None → replicas, "
        "models.coder.memory_gib"
    )
    assert middle.startswith("chat: a, cluster; coder: b, solo serve; changed: models.chat.recipe None → a, ")
    assert oldest == "a, cluster serves"


def test_what_canary_guard_and_systemd_say_is_told_and_nothing_else(told: Any) -> None:
    guard = {"_SYSTEMD_UNIT": "tandem-guard.service", "__REALTIME_TIMESTAMP": "1790000000000000"}
    found = told(
        [
            guard | {"MESSAGE": "tandem: the engine's container is killed"},
            guard | {"MESSAGE": "Traceback (most recent call last):"},
            guard | {"MESSAGE": [116, 97]},
            {"_PID": "1", "MESSAGE_ID": "5eb", "UNIT": "tandem-engine.service", "MESSAGE": "Scheduled restart job"}
            | {"__REALTIME_TIMESTAMP": "1790000001000000"},
            {
                "_PID": "1",
                "MESSAGE_ID": "5eb",
                "UNIT": "tandem-engine-coder.service",
                "MESSAGE": "Scheduled restart job",
            }
            | {"__REALTIME_TIMESTAMP": "1790000002000000"},
            {"_PID": "1", "MESSAGE_ID": "5eb", "UNIT": "nginx.service", "MESSAGE": "Scheduled restart job"}
            | {"__REALTIME_TIMESTAMP": "1790000001000000"},
        ]
    )
    assert [(each["kind"], each["text"]) for each in found] == [
        ("restart", "tandem-engine-coder: Scheduled restart job"),
        ("restart", "tandem-engine: Scheduled restart job"),
        ("guard", "tandem-guard: the engine's container is killed"),
    ]


def test_a_stranger_s_crash_loop_has_no_place_among_the_lines_that_are_asked_for(told: Any, tmp_path: Path) -> None:
    told([])
    asked = (tmp_path / "asked").read_text()
    assert "-n 400" in asked and "--unit=tandem-*.service" in asked
    assert asked.index("--unit=") < asked.index("_SYSTEMD_UNIT=tandem-canary.service +")


def test_a_record_that_can_t_be_read_leaves_the_others(told: Any, tmp_path: Path) -> None:
    (tmp_path / "served.json").write_text("[{")
    (tmp_path / "journalctl").write_text("#!/bin/sh\nexit 1\n")
    assert told([]) == []
