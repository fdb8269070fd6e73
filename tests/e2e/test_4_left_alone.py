"""What becomes of a cluster that is left alone: ranks die, nodes reboot, things drift, deploys are killed."""

from __future__ import annotations

import subprocess
import time

import pytest

from operations.paths import NETPLAN
from tests.chaos import row
from tests.chaos.deploying import broken_recipe, cut_management_off
from tests.chaos.fault import Fault
from tests.chaos.faults import fast
from tests.chaos.scene import Scene
from tests.lab import cluster, model
from tests.lab.cluster import HEAD, WORKER, deploy, on
from tests.lab.node import boot_id

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("ray_cluster")]


@pytest.fixture(scope="module")
def ray(ray_cluster: None) -> Scene:
    """The cluster, with the right answers of its model."""
    return Scene("cluster", "ray").look()


@pytest.mark.parametrize("fault", fast("cluster/ray"), ids=lambda fault: fault.name)
def test_a_fault_of_a_cluster_is_survived(ray: Scene, fault: Fault) -> None:
    assert row.run(ray, fault).problems == []


def test_a_short_cut_of_a_rail_restarts_nothing(at: dict[str, str]) -> None:
    before = on(HEAD, "docker inspect --format '{{.Id}}' tandem-engine")
    cluster.lab("cut", "spark-2:rail0")
    time.sleep(4)
    cluster.lab("heal", "spark-2:rail0")
    cluster.wait_until_served(at)
    assert on(HEAD, "docker inspect --format '{{.Id}}' tandem-engine") == before


def test_drift_is_repaired_and_nothing_else() -> None:
    engine = "docker inspect --format '{{.Id}}' tandem-engine"
    serves = on(WORKER, engine)
    # Not the rail that ranks speak over here: with another MTU at its end an engine hangs, and its canary ends it.
    on(WORKER, "ip link set enP2p1s0f0np0 mtu 1500")
    on(WORKER, "echo '# by hand' >> /etc/systemd/system/tandem-engine.service")
    image = on(HEAD, "docker inspect --format '{{.Config.Image}}' tandem-engine").strip()
    by_hand = "docker run --detach --network none --entrypoint sleep"
    on(HEAD, f"{by_hand} --label tandem.spec=older --name tandem-old {image} 600")
    on(HEAD, f"{by_hand} --name tandem-bicycle {image} 600")
    time.sleep(2)
    # The canary has seen it, before anybody deploys.
    argv = ["make", "-s", "status", f"INVENTORY={cluster.INVENTORY}"]
    told = subprocess.run(argv, cwd=cluster.ROOT, capture_output=True, text=True, check=True).stdout
    assert "the rail enP2p1s0f0np0 has MTU 1500, not 9000" in " ".join(told.split())
    repaired = deploy(topology="cluster", executor="ray")
    assert repaired.code == 0, repaired.text
    assert "enP2p1s0f0np0 has MTU 1500, not 9000" in repaired.text
    # The owner's own container is the owner's, whatever it is called.
    assert cluster.containers(HEAD) == ["tandem-bicycle", *cluster.SERVING]
    on(HEAD, "docker rm --force tandem-bicycle")
    assert "by hand" not in on(WORKER, "cat /etc/systemd/system/tandem-engine.service")
    # The engine went on serving: what it runs is what is planned.
    assert on(WORKER, engine) == serves
    assert deploy(topology="cluster", executor="ray").changes == 0


def test_a_truncated_shard_on_a_worker_is_fetched_again() -> None:
    shard = f"{cluster.STORE}/snapshots/{model.revision()}/model-00001-of-00002.safetensors"
    on(WORKER, f"truncate --size=-100 $(readlink -f {shard})")
    repaired = deploy(topology="cluster", executor="ray")
    assert repaired.code == 0, repaired.text
    assert "its header says" in repaired.text
    assert deploy(topology="cluster", executor="ray").changes == 0


@pytest.mark.long
def test_netplan_comes_back_by_itself_when_management_is_lost() -> None:
    """The guard alone: the file is applied as a deploy does it, and nobody says that the node is still in reach."""
    before = on(WORKER, f"cat {NETPLAN}")
    cut_management_off(WORKER, before)
    lost = time.monotonic()
    while not boot_id(WORKER):
        assert time.monotonic() - lost < 120, "management did not come back"
    assert on(WORKER, f"cat {NETPLAN}") == before
    assert on(WORKER, f"ls {NETPLAN}.* /etc/systemd/system/tandem-netplan*", check=False) == ""


def test_an_engine_that_can_t_start_ends_the_wait_with_its_last_words_and_the_way_back_is_taken(
    at: dict[str, str],
) -> None:
    start = time.monotonic()
    failed = deploy(topology="cluster", executor="ray", recipe=str(broken_recipe()), rollback="auto")
    assert failed.code == 1
    assert "does not serve: it has restarted 2 times" in failed.text
    assert "9999999" in failed.text
    assert "rollback=auto: going back to lab-tiny-llama, cluster, which served on 2" in failed.text
    assert "serves again" in failed.text
    assert time.monotonic() - start < 300
    assert cluster.complete(at) == 8
    assert deploy(topology="cluster", executor="ray").changes == 0
