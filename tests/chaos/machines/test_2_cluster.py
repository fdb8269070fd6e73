"""One engine of two ranks on two virtual machines: a deploy again, the walls, and faults under clients that count."""

from __future__ import annotations

import pytest

from tests.chaos.fault import Fault
from tests.chaos.machines import page
from tests.chaos.machines.deployed import assert_shut, deployed_again, happens
from tests.chaos.machines.scene import CLUSTER, Machines

# A deploy takes a quarter of an hour where it is emulated.
pytestmark = [pytest.mark.lab, pytest.mark.machines, pytest.mark.timeout(3 * 3600)]
TOPOLOGY = CLUSTER


def test_a_second_deploy_of_a_cluster_changes_nothing(scene: Machines) -> None:
    deployed_again(scene)


def test_from_the_office_a_cluster_is_ssh_and_the_proxy(scene: Machines) -> None:
    assert_shut()


@pytest.mark.parametrize("fault", page.of(TOPOLOGY), ids=lambda fault: fault.name)
def test_a_cluster_under_load(scene: Machines, fault: Fault) -> None:
    happens(scene, fault)
