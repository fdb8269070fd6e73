"""The page of two pairs: a rank that is gone ends its own pair's service, and not the other's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.page_doubles import ANEW_S, Exporter, Page
from tests.plan.samples import plan

NAMES = ("spark-1", "spark-2", "spark-3", "spark-4")
UP = 'tandem_source_up{source="engine"}'


@pytest.fixture
def pairs(tmp_path: Path) -> Iterator[tuple[Page, dict[str, Exporter]]]:
    exporters = {name: Exporter() for name in NAMES}
    for rank in ("spark-2", "spark-4"):
        exporters[rank].changes = {UP: None}
    at = {name: f"http://127.0.0.1:{each.server_port}" for name, each in exporters.items()}
    page = Page(tmp_path, at, of=plan(4, topology="replicas", nodes_per_replica=2, executor="mp", monitoring="metrics"))
    yield page, exporters
    page.end()
    for each in exporters.values():
        each.end()


def test_a_pair_without_a_rank_does_not_serve_and_the_other_does(pairs: tuple[Page, dict[str, Exporter]]) -> None:
    page, exporters = pairs
    assert page.told("state.json")["models"][0]["sentence"].endswith(" with two engines")
    exporters["spark-4"].end()
    exporters["spark-3"].changes = {'tandem_node_away{node="spark-4"}': "1"}
    time.sleep(ANEW_S)
    model = page.told("state.json")["models"][0]
    assert model["state"] == "partly", model
    assert model["sentence"].endswith(" with one of two engines; spark-3: does not serve while spark-4 is away"), model


def test_a_rank_starts_while_its_own_pair_does(pairs: tuple[Page, dict[str, Exporter]]) -> None:
    page, exporters = pairs
    begun = {'tandem_unit_active_since_seconds{unit="tandem-engine"}': repr(time.time())}
    exporters["spark-3"].changes = {UP: "0", **begun}
    time.sleep(ANEW_S)
    said = {node["name"]: node["state"] for node in page.told("state.json")["nodes"]}
    assert said == {"spark-1": "ok", "spark-2": "ok", "spark-3": "starting", "spark-4": "starting"}
