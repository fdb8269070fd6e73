"""Which tests on machines come first, and which are left for another run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.chaos import results
from tests.chaos.machines import conftest, page

COMMITS = {"old": 100, "new": 200}


class Item:
    """What of a test of pytest's is looked at."""

    def __init__(self, name: str, *, is_timed: bool = True) -> None:
        file, _, _ = name.partition("::")
        self.path, self.nodeid = conftest.HERE / file, f"tests/chaos/machines/{name}"
        self.is_timed = is_timed

    def get_closest_marker(self, name: str) -> object | None:
        return SimpleNamespace() if self.is_timed and name == "machines" else None


def item(name: str) -> pytest.Item:
    return cast("pytest.Item", Item(name))


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has passed is kept in a place of its own."""
    monkeypatch.setattr(page, "PATH", tmp_path / "machines.json")
    monkeypatch.setattr(page, "PAGE", tmp_path / "machines.md")
    monkeypatch.setattr(results, "committed_at", lambda code: COMMITS[code])
    monkeypatch.setattr(conftest, "BEGUN", set())
    monkeypatch.setenv("ARCH", "arm64")
    monkeypatch.setenv("MINUTES", "30")


def ordered(*names: str) -> list[str]:
    items: list[Any] = [Item(name) for name in names]
    items.insert(1, Item("test_page.py::test_fast", is_timed=False))
    conftest.pytest_collection_modifyitems(items)
    assert items.pop(1).nodeid.endswith("test_fast")
    return [each.nodeid.rpartition("/")[2] for each in items]


def test_what_was_longest_not_seen_comes_first_file_by_file() -> None:
    page.passed("arm64", "test_replicas.py::test_a", page.Passed("new", 60))
    page.passed("arm64", "test_replicas.py::test_b", page.Passed("old", 60))
    page.passed("amd64", "test_cluster.py::test_c", page.Passed("new", 60))
    names = ("test_replicas.py::test_a", "test_replicas.py::test_b", "test_cluster.py::test_c")
    assert ordered(*names) == [names[2], names[1], names[0]]
    page.passed("arm64", "test_cluster.py::test_c", page.Passed("new", 60))
    assert ordered(*names) == [names[1], names[0], names[2]]


def test_without_minutes_they_come_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINUTES")
    page.passed("arm64", "test_replicas.py::test_a", page.Passed("new", 60))
    names = ("test_replicas.py::test_a", "test_cluster.py::test_c")
    assert ordered(*names) == list(names)
    monkeypatch.setattr(conftest, "BEGAN", float("-inf"))
    conftest.pytest_runtest_setup(item(names[0]))


def test_what_would_not_end_in_time_is_left_for_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "time", SimpleNamespace(monotonic=lambda: conftest.BEGAN + 24 * 60))
    page.passed("arm64", "test_replicas.py::test_short", page.Passed("new", 300))
    conftest.pytest_runtest_setup(item("test_replicas.py::test_short"))
    with pytest.raises(pytest.skip.Exception, match=r"^6 minutes are left: another `make"):
        conftest.pytest_runtest_setup(item("test_replicas.py::test_never_seen"))
    # A switch of the topology takes longer than this test.
    page.passed("arm64", "test_cluster.py::test_short", page.Passed("new", 300))
    with pytest.raises(pytest.skip.Exception):
        conftest.pytest_runtest_setup(item("test_cluster.py::test_short"))


def test_tests_that_need_no_machines_are_not_kept(request: pytest.FixtureRequest) -> None:
    """Of this folder's tests these run everywhere, with the page's own file in reach."""
    assert not conftest._is_timed(request.node) and conftest._is_timed(item("test_cluster.py::test_short"))


def test_minutes_are_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINUTES", "half an hour")
    with pytest.raises(pytest.UsageError, match=r"^MINUTES is `half an hour`: expected a whole number$"):
        conftest.minutes()


def test_the_page_says_with_which_commit_a_test_has_passed() -> None:
    page.tell("arm64", kernel="6.12 aarch64")
    page.passed("arm64", "test_cluster.py::test_from_the_office", page.Passed("old", 300))
    page.passed("arm64", "test_cluster.py::test_from_the_office", page.Passed("new", 360))
    page.passed("arm64", "test_cluster.py::test_under_load[a fault]", page.Passed("new", 360))
    told = page.PAGE.read_text()
    assert "| cluster: from the office | 360 | new |" in told and "a fault" not in told
