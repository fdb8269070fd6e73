"""The page of virtual machines is what the runs have kept, and nothing written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.machines import page
from tests.chaos.machines.faults import POWER_CUT, REBOOT
from tests.chaos.machines.scene import REPLICAS
from tests.chaos.row import Row


def test_the_page_says_what_the_runs_have_kept() -> None:
    assert page.PAGE.read_text() == page.page(page.read())


def test_facts_and_rows_take_the_place_of_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PATH", tmp_path / "machines.json")
    monkeypatch.setattr(page, "PAGE", tmp_path / "machines.md")
    page.tell("arm64", kernel="6.12 aarch64", second="4.0 minutes, no changes")
    page.tell("arm64", second="3.0 minutes, no changes", doctor="spark-1 -> spark-2: RDMA 0.2 Gbit/s")
    page.keep(Row("replicas/arm64", POWER_CUT, "", problems=["2 requests lost"]))
    page.keep(Row("replicas/arm64", REBOOT, "", serves_again_s=300.0))
    page.keep(Row("replicas/arm64", REBOOT, "", serves_again_s=240.4, requests="9 sent, 9 answered"))
    assert [row.fault for row in page.read().rows] == [REBOOT, POWER_CUT]
    text = page.PAGE.read_text()
    assert "| kernel, architecture | 6.12 aarch64 |" in text and "| second deploy | 3.0 minutes, no changes |" in text
    assert f"| {REBOOT}, until it serves | 240 s |" in text and "```text\nspark-1 -> spark-2: RDMA" in text
    assert f"Seen: 2 of {len(page.of(REPLICAS))} rows, 1 as expected." in text
    assert "Not run for this page: amd64." in text
