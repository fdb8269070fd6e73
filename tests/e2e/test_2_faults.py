"""What happens to a cluster that is left alone, and to a deploy that finds things as they should not be."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from operations import remote
from operations.plan.places import NETPLAN
from tests.e2e import cluster
from tests.e2e.cluster import HEAD, WORKER, deploy, on
from tests.lab import model
from tests.lab.node import boot_id, ssh_argv
from tests.lab.settings import FABRIC_NAMESPACE, LINKS, SSH_KEY

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("lab")]

STORE = "/home/spark/.cache/huggingface/hub/models--tandem-lab--tiny-llama"


@pytest.fixture(scope="module", autouse=True)
def _a_cluster(lab: None) -> None:
    done = deploy(topology="cluster", executor="ray")
    assert done.code == 0, done.text


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
    shard = f"{STORE}/snapshots/{model.revision()}/model-00001-of-00002.safetensors"
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
    recipe = tmp_path / "lab-tiny-llama.yaml"
    shipped = (cluster.ROOT / "files/recipes/lab-tiny-llama.yaml").read_text()
    recipe.write_text(shipped.replace("dtype: float32", "dtype: float33"))
    start = time.monotonic()
    failed = deploy(topology="cluster", executor="ray", recipe=str(recipe))
    assert failed.code == 1
    assert time.monotonic() - start < 180
    assert "does not serve: it has restarted 2 times" in failed.text
    assert "float33" in failed.text
    assert "Traceback (most recent call last)" not in failed.text.split("does not serve")[0]
    healed = deploy(topology="cluster", executor="ray")
    assert healed.code == 0, healed.text


def refused(*words: str, **knobs: Any) -> None:
    """A deploy is refused in words of its own, and the cluster is left as it is."""
    before = [on(node, "docker inspect --format '{{.Id}}' tandem-engine") for node in (HEAD, WORKER)]
    said = deploy(**{"topology": "cluster", **knobs})
    assert said.code == 1
    for word in words:
        assert word in said.text, said.text
    assert "Traceback" not in said.text
    assert [on(node, "docker inspect --format '{{.Id}}' tandem-engine") for node in (HEAD, WORKER)] == before


def test_no_carrier_is_named() -> None:
    cluster.lab("cut", "spark-2:rail1")
    try:
        refused("spark-2", "no carrier on `enP2p1s0f0np0`", "plug the cable in")
    finally:
        cluster.lab("heal", "spark-2:rail1")


def test_an_mtu_that_does_not_get_through_is_named() -> None:
    ip = ["ip", "-n", FABRIC_NAMESPACE, "link", "set", "tnd2-rail0", "mtu"]
    subprocess.run([*ip, "1500"], check=True)
    try:
        refused("the fabric does not carry MTU 9000", "enp1s0f0np0 ->", "9000 bytes do not")
    finally:
        subprocess.run([*ip, "9000"], check=True)


def test_a_port_of_somebody_else_is_named() -> None:
    on(WORKER, "systemd-run --unit=lab-squatter python3 -m http.server 8005")
    try:
        time.sleep(1)
        refused("spark-2", "port 8005 is held by python3", "`engine_port`", engine_port=8005)
    finally:
        on(WORKER, "systemctl stop lab-squatter")


def test_a_sudo_that_wants_a_password_is_named() -> None:
    on(WORKER, "mv /etc/sudoers.d/90-lab /root/90-lab")
    try:
        said = deploy(topology="cluster")
        assert said.code == 1
        assert "sudo wants a password for this login" in said.text
        assert "NOPASSWD" in said.text and "Traceback" not in said.text
    finally:
        give_sudo_back()


def give_sudo_back() -> None:
    """From outside: the node's files lie on this machine."""
    (WORKER.root / "root/90-lab").rename(WORKER.root / "etc/sudoers.d/90-lab")


def test_an_archive_that_is_none_is_named() -> None:
    on(HEAD, "echo text > /root/engine.tar")
    refused("/root/engine.tar is no image archive", engine_image_from="archive:/root/engine.tar")


def test_a_model_folder_with_a_truncated_shard_is_named(tmp_path: Path) -> None:
    on(HEAD, f"rm -rf /root/model && cp -rL {STORE}/snapshots/{model.revision()} /root/model")
    on(HEAD, "truncate --size=-1 /root/model/model-00002-of-00002.safetensors")
    recipe = tmp_path / "lab-tiny-llama.yaml"
    shipped = (cluster.ROOT / "files/recipes/lab-tiny-llama.yaml").read_text()
    recipe.write_text(shipped.replace(model.revision(), "0" * 40))
    refused("model-00002-of-00002.safetensors has", "its header says", model_from="/root/model", recipe=str(recipe))
    on(HEAD, "rm /root/model/model-00001-of-00002.safetensors")
    refused("model-00001-of-00002.safetensors is missing", model_from="/root/model", recipe=str(recipe))


def test_a_disk_that_is_too_small_is_named(tmp_path: Path) -> None:
    recipe = tmp_path / "lab-tiny-llama.yaml"
    shipped = (cluster.ROOT / "files/recipes/lab-tiny-llama.yaml").read_text()
    recipe.write_text(shipped.replace(model.revision(), "0" * 40).replace("disk_gib: 0.01", "disk_gib: 9000"))
    refused("GiB free", "9000 GiB are needed", recipe=str(recipe))


def inventory_with(tmp_path: Path, **changes: Any) -> str:
    """The lab's inventory with another second node."""
    file = tmp_path / "nodes.py"
    file.write_text(
        f"import sys; sys.path.insert(0, {str(cluster.ROOT)!r})\n"
        "from tests.lab.inventory import config, nodes as _nodes\n"
        f"nodes = [_nodes[0], (_nodes[1][0], {{**_nodes[1][1], **{changes!r}}})]\n"
    )
    return str(file)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ssh_hostname": "10.213.77.99"}, ["spark-2", "Could not connect"]),
        ({"ssh_user": "nobody"}, ["spark-2", "Authentication error"]),
    ],
    ids=["does not answer", "refuses the key"],
)
def test_a_node_out_of_reach_stops_the_deploy(tmp_path: Path, changes: dict[str, object], said: list[str]) -> None:
    assert SSH_KEY.exists()
    before = on(HEAD, "docker inspect --format '{{.Id}}' tandem-engine")
    done = deploy(inventory=inventory_with(tmp_path, **changes), topology="replicas")
    assert done.code == 1
    for words in said:
        assert words in done.text, done.text
    assert "Traceback" not in done.text
    assert on(HEAD, "docker inspect --format '{{.Id}}' tandem-engine") == before


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
