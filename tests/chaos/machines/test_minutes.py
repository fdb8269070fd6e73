"""Which tests on machines come first, and which are left for another run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.chaos.machines import conftest, page

OLD, NEW = "2026-01-01T00:00:00+00:00", "2026-02-01T00:00:00+00:00"


class Item:
    """A double of pytest's item, with what the hooks read."""

    def __init__(self, name: str, *, is_timed: bool = True) -> None:
        file, _, _ = name.partition("::")
        self.path, self.nodeid = conftest.HERE / file, f"tests/chaos/machines/{name}"
        self.is_timed = is_timed

    def get_closest_marker(self, name: str) -> object | None:
        return SimpleNamespace() if self.is_timed and name == "machines" else None


@pytest.fixture(autouse=True)
def own_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries are kept in a place of their own."""
    monkeypatch.setattr(page, "PATH", tmp_path / "machines.json")
    monkeypatch.setattr(page, "PAGE", tmp_path / "machines.md")
    monkeypatch.setattr(conftest, "BEGUN", set())
    monkeypatch.setenv("ARCH", "arm64")
    monkeypatch.setenv("MINUTES", "30")


def tried(name: str, at: str = NEW, took_s: float = 60, arch: str = "arm64") -> None:
    page.tried(arch, name, page.Tried(at, "7a266a24636e", took_s))


def ordered(*names: str) -> list[str]:
    items: list[Any] = [Item(name) for name in names]
    items.insert(1, Item("test_page.py::test_fast", is_timed=False))
    conftest.pytest_collection_modifyitems(items)
    assert items.pop(1).nodeid.endswith("test_fast")
    return [each.nodeid.rpartition("/")[2] for each in items]


def is_left(monkeypatch: pytest.MonkeyPatch, name: str, after_minutes: float) -> str:
    """The reason why a test is left for another run, so many minutes after the begin; empty: it is run."""
    now = conftest.BEGAN + after_minutes * 60
    monkeypatch.setattr(conftest, "time", SimpleNamespace(monotonic=lambda: now))
    try:
        conftest.pytest_runtest_setup(cast("pytest.Item", Item(name)))
    except pytest.skip.Exception as reason:
        return str(reason)
    return ""


def test_the_oldest_try_comes_first_file_by_file() -> None:
    names = ("test_1_replicas.py::test_a", "test_1_replicas.py::test_b", "test_2_cluster.py::test_c")
    tried(names[0])
    tried(names[1], OLD)
    tried(names[2], arch="amd64")
    assert ordered(*names) == [names[2], names[1], names[0]]
    tried(names[2])
    assert ordered(*names) == [names[1], names[0], names[2]]


def test_without_minutes_they_come_as_they_are_written_and_all_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINUTES")
    names = ("test_1_replicas.py::test_a", "test_2_cluster.py::test_c")
    tried(names[0])
    assert ordered(*names) == list(names)
    assert not [name for name in names if is_left(monkeypatch, name, 500)]


def test_what_would_not_end_in_time_is_left_for_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    tried("test_1_replicas.py::test_short", took_s=300)
    # The first one is tried whatever the time: else one that takes longer never would be.
    assert not is_left(monkeypatch, "test_1_replicas.py::test_never_tried", 29)
    assert not is_left(monkeypatch, "test_1_replicas.py::test_short", 24)
    told = is_left(monkeypatch, "test_1_replicas.py::test_never_tried", 24)
    assert told == "6 minutes are left: it is for another `make test-machines`"
    # A switch of the topology takes longer than this test.
    tried("test_2_cluster.py::test_short", took_s=300)
    assert is_left(monkeypatch, "test_2_cluster.py::test_short", 24)
    assert not is_left(monkeypatch, "test_2_cluster.py::test_short", 10)


@pytest.mark.parametrize(
    ("when", "outcome", "has_passed"),
    [("call", "passed", True), ("call", "failed", False), ("setup", "failed", False), ("setup", "passed", None)],
)
def test_each_try_is_kept(monkeypatch: pytest.MonkeyPatch, when: str, outcome: str, has_passed: bool | None) -> None:
    """Also one whose machines could not be had. Without MACHINES=vm none is tried."""
    name = "test_2_cluster.py::test_c"
    report = SimpleNamespace(when=when, passed=outcome == "passed", failed=outcome == "failed", duration=61.4)
    for is_timed, machines in ((False, "vm"), (True, "namespaces"), (True, "vm")):
        monkeypatch.setattr(conftest, "MACHINES", machines)
        assert not page.read().tried
        hook = conftest.pytest_runtest_makereport(cast("pytest.Item", Item(name, is_timed=is_timed)), cast("Any", None))
        next(hook)
        with pytest.raises(StopIteration) as end:
            hook.send(cast("Any", report))
        assert end.value.value is report
    seen = page.read().tried.get("arm64", {}).get(name)
    assert (seen and (seen.has_passed, seen.took_s)) == (None if has_passed is None else (has_passed, 61))


@pytest.mark.parametrize("text", ["half an hour", "-3", "²"])
def test_minutes_are_a_number(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINUTES", text)
    with pytest.raises(pytest.UsageError, match=rf"^MINUTES is `{text}`: expected a whole number$"):
        conftest.minutes()


def test_the_page_has_tests_beside_faults() -> None:
    page.tell("arm64", kernel="6.12 aarch64")
    tried("test_2_cluster.py::test_from_the_office", OLD, 300)
    tried("test_2_cluster.py::test_from_the_office", took_s=360)
    tried("test_2_cluster.py::test_under_load[a fault]")
    told = page.PAGE.read_text()
    assert "| cluster: from the office | 360 | passed | 7a266a24636e |" in told and "a fault" not in told
