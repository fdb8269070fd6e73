"""What runs on nodes is told to owners."""

from __future__ import annotations

import re

import pytest

from operations.plan.services import registry
from tests.plan.samples import ROOT


@pytest.mark.parametrize("unit", registry.to_remove())
def test_each_unit_is_on_the_page_of_what_is_on_a_node(unit: str) -> None:
    listed = re.findall(r"system/tandem-\{(.*?)\}\.service", (ROOT / "docs/on-a-node.md").read_text())
    assert unit.removeprefix("tandem-") in ",".join(listed).split(",")


@pytest.mark.parametrize("unit", [unit for service in registry.SERVICES for unit in service.units[:1]])
def test_each_service_is_on_the_page_about_safety(unit: str) -> None:
    assert unit.removeprefix("tandem-") in (ROOT / "docs/security.md").read_text()
