"""What fit counts, against what public recipes and logs declare: the table of docs/fit.md is made here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from operations.plan.fit.config import shape
from operations.plan.fit.shape import GIB
from operations.plan.fit.weights import count
from tests.plan.samples import ROOT

HERE, PAGE = Path(__file__).parent, ROOT / "docs/fit.md"
CONFIGS: dict[str, Any] = yaml.safe_load((HERE / "configs.yaml").read_text())
DECLARED: list[dict[str, Any]] = yaml.safe_load((HERE / "declared.yaml").read_text())
WEIGHTS, CACHES = ([each for each in DECLARED if ("kv" in each) == is_cache] for is_cache in (False, True))
BEGIN, END = "<!-- made by tests/plan/fit/test_declared.py -->", "<!-- end -->"


def said(each: dict[str, Any]) -> float:
    return float(each["gib"] if "gib" in each else each["gb"] * 1e9 / GIB)


def counted(each: dict[str, Any]) -> float:
    return count(CONFIGS[each["config"]]).gib(each.get("bits", {}))


def held(each: dict[str, Any]) -> float:
    kv = each["kv"]
    return shape(CONFIGS[each["config"]]).held(kv["tokens"], kv["type"], kv.get("ranks", 1)) / GIB


def table() -> str:
    lines = ["| build | declared, GiB | counted | error | by |", "|---|---|---|---|---|"]
    for each in WEIGHTS:
        mine = counted(each)
        note = f"; {each['note']}" if "note" in each else ""
        lines.append(
            f"| {each['build']} | {said(each):.1f} | {mine:.1f} | {mine / said(each) - 1:+.1%} | {each['by']}{note} |"
        )
    lines += [
        "",
        "| KV cache of | tokens, type, ranks | declared, GiB | counted | error | by |",
        "|---|---|---|---|---|---|",
    ]
    for each in CACHES:
        kv, mine = each["kv"], held(each)
        note = f"; {each['note']}" if "note" in each else ""
        what = f"{kv['tokens']:,}, {kv['type'].upper()}, {kv.get('ranks', 1)}"
        error = f"{mine / kv['gib'] - 1:+.1%}"
        lines.append(f"| {each['build']} | {what} | {kv['gib']:.2f} | {mine:.2f} | {error} | {each['by']}{note} |")
    return "\n".join(lines)


def test_the_table_in_the_docs_is_this_one() -> None:
    """GOLDEN=write writes it."""
    text = PAGE.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    whole = f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"
    if os.environ.get("GOLDEN") == "write":
        PAGE.write_text(whole)
    assert PAGE.read_text() == whole


def test_twenty_builds_are_there() -> None:
    assert len(WEIGHTS) >= 20 and len(CACHES) >= 10


@pytest.mark.parametrize("each", WEIGHTS, ids=lambda each: each["build"])
def test_weights_are_within_a_twelfth(each: dict[str, Any]) -> None:
    assert counted(each) == pytest.approx(said(each), rel=1 / 12)


@pytest.mark.parametrize("each", CACHES, ids=lambda each: each["build"])
def test_a_kv_cache_is_within_a_fiftieth(each: dict[str, Any]) -> None:
    """But for hybrids whose pages vLLM pads, which is told as not counted."""
    if "padded" in each.get("note", ""):
        assert held(each) < each["kv"]["gib"] < 1.75 * held(each)
    else:
        assert held(each) == pytest.approx(each["kv"]["gib"], rel=1 / 50)
