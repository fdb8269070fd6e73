"""The canary's watch over a LiteLLM: slow is not hanging, and neither is a start."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.shipped import part
from tests.support.serving import Quiet, serving

node, watch, inner = part("canary", "node"), part("canary", "watch"), part("canary", "inner")


class FakeProxy(Quiet):
    """Its event loop takes `late_s` until it comes to a question."""

    late_s = 0.0

    def do_GET(self) -> None:
        time.sleep(self.late_s)
        assert self.path == "/health/liveliness"
        self.reply(b'"I\'m alive!"')


@pytest.fixture
def kind() -> Iterator[tuple[str, type[FakeProxy]]]:
    made = type("Proxy", (FakeProxy,), {})
    with serving(made) as url:
        yield url, made


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who was killed; a fifth of the real times."""
    killed: list[str] = []

    def kill(name: str) -> bool:
        killed.append(name)
        return True

    monkeypatch.setattr(node, "kill", kill)
    monkeypatch.setattr(node, "invocation", lambda *_, **__: "one")
    monkeypatch.setattr(node, "control_group", lambda _: None)
    for name in ("ASK_S", "LATE_S", "SILENCE_S", "COMPUTING_S", "START_S"):
        monkeypatch.setattr(inner, name, getattr(inner, name) / 5)
    monkeypatch.setattr(watch, "STARTING_S", 0.1)
    monkeypatch.setattr(watch, "SOON_S", 0.05)
    monkeypatch.setattr(watch, "AFTER_S", 0.0)
    return killed


def made(url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    kept = inner.LiteLLM("tandem-litellm-a", url)
    # The class has taken its times from the module when it was made.
    kept.deadline_s, kept.silence_s, kept.start_s = inner.LATE_S, inner.SILENCE_S, inner.START_S
    return kept


def run(kept: Any, seconds: float, kills: list[str]) -> None:
    end, before = time.monotonic() + seconds, len(kills)
    while time.monotonic() < end and len(kills) == before:
        kept.turn()


def test_the_times_leave_a_second_of_the_ten() -> None:
    assert inner.ASK_S + inner.SILENCE_S <= 9
    assert inner.LATE_S * 2 <= inner.SILENCE_S


def test_one_that_is_slow_is_not_killed(
    kind: tuple[str, type[FakeProxy]], kills: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, fake = kind
    kept = made(url, monkeypatch)
    run(kept, 0.5, kills)
    fake.late_s = 0.7
    run(kept, 4, kills)
    assert kills == []


def test_one_that_hangs_is_killed_and_then_starts_with_new_patience(
    kind: tuple[str, type[FakeProxy]], kills: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, fake = kind
    kept = made(url, monkeypatch)
    run(kept, 0.5, kills)
    assert kept.answered_at
    fake.late_s = 3
    run(kept, 2.5, kills)
    assert kills == ["tandem-litellm-a"]
    monkeypatch.setattr(node, "invocation", lambda *_, **__: "two")
    run(kept, 2, kills)
    assert kills == ["tandem-litellm-a"]
    fake.late_s = 0
    run(kept, 4, kills)
    assert kept.problem == ""


def test_one_that_could_not_answer_because_the_machine_stood_still_is_not_killed(
    kind: tuple[str, type[FakeProxy]], kills: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, fake = kind
    kept = made(url, monkeypatch)
    run(kept, 0.5, kills)
    oversleep(kept, 1.5, monkeypatch)
    fake.late_s = 10
    begun = time.monotonic()
    # The question, and two pauses that are far longer than an answer may take.
    for _ in range(3):
        kept.turn()
    assert kills == []
    assert time.monotonic() - begun > 4


def test_one_that_hangs_is_killed_also_where_every_pause_is_too_long(
    kind: tuple[str, type[FakeProxy]], kills: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, fake = kind
    kept = made(url, monkeypatch)
    run(kept, 0.5, kills)
    oversleep(kept, 0.3, monkeypatch)
    fake.late_s = 30
    run(kept, 12, kills)
    assert kills == ["tandem-litellm-a"]


def uses(folder: Path, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control group of a container that uses so much of a core from now on."""
    begun = time.monotonic()

    def cpu_s(group: Path | None) -> float:
        assert group == folder
        return 5.0 + share * (time.monotonic() - begun)

    monkeypatch.setattr(node, "control_group", lambda _: folder)
    monkeypatch.setattr(node, "cpu_s", cpu_s)


@pytest.mark.parametrize(("share", "least", "most"), [(0.001, 1.0, 5.0), (0.3, 5.5, 12.0)])
def test_one_that_computes_is_killed_after_thirty_seconds_and_not_after_seven(
    kind: tuple[str, type[FakeProxy]],
    kills: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    share: float,
    least: float,
    most: float,
) -> None:
    url, fake = kind
    uses(tmp_path, share, monkeypatch)
    kept = made(url, monkeypatch)
    run(kept, 0.5, kills)
    fake.late_s = 30
    begun = time.monotonic()
    run(kept, 15, kills)
    assert kills == ["tandem-litellm-a"]
    assert least < time.monotonic() - begun < most
    assert ("it computes" in kept.killed) == (share > 0.02)


def test_one_that_has_computed_and_does_no_more_is_killed_then(
    kind: tuple[str, type[FakeProxy]], kills: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url, fake = kind
    uses(tmp_path, 1.0, monkeypatch)
    kept = made(url, monkeypatch)
    run(kept, 0.5, kills)
    fake.late_s = 10
    run(kept, 3, kills)
    assert kills == []
    monkeypatch.setattr(node, "cpu_s", lambda _: 9.0)
    run(kept, 2, kills)
    assert kills == ["tandem-litellm-a"]


def test_the_cpu_time_of_a_container_is_that_of_its_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "CGROUPS", tmp_path)
    (tmp_path / "docker").write_text("#!/bin/sh\necho 12ab\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert node.control_group("tandem-litellm-a") is None
    group = tmp_path / "system.slice/docker-12ab.scope"
    group.mkdir(parents=True)
    assert node.control_group("tandem-litellm-a") == group
    assert node.cpu_s(group) == node.cpu_s(None) == 0
    (group / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    assert node.cpu_s(group) == 1.5


def oversleep(kept: Any, lost_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pause is so much too long."""
    monkeypatch.setattr(watch, "OVERSLEPT_S", 0.2)
    monkeypatch.setattr(kept, "rest", lambda pause: time.sleep(pause + lost_s))


def test_one_that_starts_has_two_minutes_and_no_more(kills: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    kept = made("http://127.0.0.1:9", monkeypatch)
    kept.start_s = 3.0
    run(kept, 1, kills)
    assert kills == []
    assert "has not answered yet since its start" in kept.problem
    run(kept, 10, kills)
    assert kills == ["tandem-litellm-a"]


def test_one_that_refuses_is_killed_like_one_that_hangs(
    kind: tuple[str, type[FakeProxy]], kills: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = made(kind[0], monkeypatch)
    run(kept, 0.5, kills)
    kept.url = "http://127.0.0.1:9"
    run(kept, 10, kills)
    assert kills == ["tandem-litellm-a"]


@pytest.mark.parametrize(
    ("said", "labels"),
    [
        ("""echo '{"tandem.url":"http://127.0.0.1:8001"}'""", {"tandem.url": "http://127.0.0.1:8001"}),
        ("echo null", {}),
        ("echo 12ab", {}),
        ("echo 'no such object' >&2; exit 1", {}),
    ],
)
def test_a_container_s_labels_are_docker_s_word_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, labels: dict[str, str]
) -> None:
    asked = '[ "$*" = "inspect --format {{json .Config.Labels}} tandem-engine" ] || exit 1'
    (tmp_path / "docker").write_text(f"#!/bin/sh\n{asked}\n{said}\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert node.labels("tandem-engine") == labels
