"""Replicas are renewed in turn, under load."""

from __future__ import annotations

import pytest

from tests.chaos import client, row
from tests.chaos.deploying import changed_recipe
from tests.chaos.scene import Scene
from tests.lab.cluster import deploy

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("lab")]


def test_a_rolling_renewal_costs_no_request() -> None:
    done = deploy(topology="replicas")
    assert done.code == 0, done.text
    replicas = Scene.named("replicas/balanced").look()
    with client.load(replicas.at, replicas.expected) as seen:
        seen.pause_s = row.PAUSE_S
        renewed = deploy(topology="replicas", recipe=str(changed_recipe()))
    assert renewed.code == 0, renewed.text
    assert seen.answered > 20
    assert str(seen) == f"{seen.sent} sent, {seen.sent} answered"
