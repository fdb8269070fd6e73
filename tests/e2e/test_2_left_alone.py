"""What becomes of a cluster that is left alone: ranks die, nodes reboot, things drift, deploys are killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from operations import remote
from operations.plan.places import NETPLAN
from tests.e2e import cluster
from tests.e2e.cluster import HEAD, WORKER, deploy, on
from tests.lab import model
from tests.lab.node import boot_id, ssh_argv
from tests.lab.settings import LINKS

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("ray_cluster")]


def test_a_killed_rank_comes_back_by_itself(at: dict[str, str]) -> None:
    with cluster.load(at):
        time.sleep(2)
        on(WORKER, "docker kill --signal KILL tandem-engine")
        time.sleep(5)
    assert cluster.wait_until_served(at) < 120
    assert cluster.containers(HEAD) == ["tandem-engine", "tandem-proxy"]
    assert cluster.containers(WORKER) == ["tandem-engine"]
    restarts = on(HEAD, "systemctl show tandem-engine --property=NRestarts --value")
    assert int(restarts) <= 2


def test_a_short_cut_of_a_rail_restarts_nothing(at: dict[str, str]) -> None:
    before = on(HEAD, "docker inspect --format '{{.Id}}' tandem-engine")
    cluster.lab("cut", "spark-2:rail0")
    time.sleep(4)
    cluster.lab("heal", "spark-2:rail0")
    cluster.wait_until_served(at)
    assert on(HEAD, "docker inspect --format '{{.Id}}' tandem-engine") == before


def test_a_reboot_of_all_nodes_needs_nobody(at: dict[str, str]) -> None:
    cluster.lab("reboot", "all")
    assert cluster.wait_until_served(at) < 150
    again = deploy(topology="cluster", executor="ray")
    assert again.code == 0, again.text
    assert again.changes == 0, again.text


def test_drift_is_repaired_and_nothing_else() -> None:
    on(WORKER, "ip link set enp1s0f0np0 mtu 1500")
    on(WORKER, "echo '# by hand' >> /etc/systemd/system/tandem-engine.service")
    image = on(HEAD, "docker inspect --format '{{.Config.Image}}' tandem-engine").strip()
    on(HEAD, f"docker run --detach --network none --name tandem-by-hand --entrypoint sleep {image} 600")
    repaired = deploy(topology="cluster", executor="ray")
    assert repaired.code == 0, repaired.text
    assert "enp1s0f0np0 has MTU 1500, not 9000" in repaired.text
    assert cluster.containers(HEAD) == ["tandem-engine", "tandem-proxy"]
    assert "by hand" not in on(WORKER, "cat /etc/systemd/system/tandem-engine.service")
    # The engine went on serving: what it runs is what is planned.
    assert "No changes" in repaired.text.split("start on the head")[1]
    assert deploy(topology="cluster", executor="ray").changes == 0


def test_a_truncated_shard_on_a_worker_is_fetched_again() -> None:
    shard = f"{cluster.STORE}/snapshots/{model.revision()}/model-00001-of-00002.safetensors"
    on(WORKER, f"truncate --size=-100 $(readlink -f {shard})")
    repaired = deploy(topology="cluster", executor="ray")
    assert repaired.code == 0, repaired.text
    assert "its header says" in repaired.text
    assert deploy(topology="cluster", executor="ray").changes == 0


def test_a_power_cut_of_a_worker_is_survived(at: dict[str, str]) -> None:
    cluster.lab("power-off", "spark-2")
    cluster.lab("power-on", "spark-2")
    assert cluster.wait_until_served(at) < 180
    assert deploy(topology="cluster", executor="ray").changes == 0


def test_netplan_comes_back_by_itself_when_management_is_lost() -> None:
    """The guard alone: the file is applied as a deploy does it, and nobody says that the node is still in reach."""
    before = on(WORKER, f"cat {NETPLAN}")
    harmful = before + f"    {LINKS['mgmt']}:\n      activation-mode: off\n"
    on(WORKER, f"cat > {NETPLAN}.pending <<'END'\n{harmful}END\nchmod 600 {NETPLAN}.pending")
    apply = remote.command("fabric", {"action": "apply", "path": NETPLAN}).get_raw_value()
    argv = [*ssh_argv(WORKER), f"sudo -n {apply}"]
    # The session hangs or breaks with the link: both are what shall happen.
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(argv, input=remote.programs().encode(), timeout=15, check=False)
    lost = time.monotonic()
    assert not boot_id(WORKER), "management was not lost: the test proves nothing"
    while not boot_id(WORKER):
        assert time.monotonic() - lost < 120, "management did not come back"
    assert on(WORKER, f"cat {NETPLAN}") == before
    assert on(WORKER, f"ls {NETPLAN}.*", check=False) == ""


def test_an_engine_that_can_t_start_ends_the_wait_with_its_last_words(tmp_path: Path) -> None:
    # More context than the model has: the lint knows flags and their choices, not every model's limits.
    recipe = tmp_path / "lab-tiny-llama.yaml"
    shipped = (cluster.ROOT / "files/recipes/lab-tiny-llama.yaml").read_text()
    recipe.write_text(shipped.replace("max-model-len: 1024", "max-model-len: 9999999"))
    start = time.monotonic()
    failed = deploy(topology="cluster", executor="ray", recipe=str(recipe))
    assert failed.code == 1
    assert time.monotonic() - start < 180
    assert "does not serve: it has restarted 2 times" in failed.text
    assert "9999999" in failed.text
    assert "Traceback (most recent call last)" not in failed.text.split("does not serve")[0]
    healed = deploy(topology="cluster", executor="ray")
    assert healed.code == 0, healed.text


def test_two_deploys_at_once_and_a_lock_that_can_t_go_stale() -> None:
    argv = [sys.executable, "-m", "pyinfra", "-y", cluster.INVENTORY, "deploy.py", "--data", "topology=solo"]
    first = subprocess.Popen(argv, cwd=cluster.ROOT, stderr=subprocess.PIPE, text=True)
    assert first.stderr is not None
    for line in first.stderr:
        if "a token from each" in line:
            break
    second = deploy(topology="cluster")
    assert second.code == 1
    assert "another deploy is at work" in second.text
    assert f"(pid {first.pid}) since 20" in second.text
    assert "Traceback" not in second.text
    # Killed in the middle: nothing holds the lock, and the next deploy brings everything in line.
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    third = deploy(topology="cluster", executor="ray")
    assert third.code == 0, third.text
    assert deploy(topology="cluster", executor="ray").changes == 0
