"""Bad input on real nodes: one message that names the thing and the remedy, and the cluster is left as it is."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.lab import cluster, model
from tests.lab.cluster import HEAD, WORKER, deploy, on
from tests.lab.node import power_off, power_on, wait_until_up
from tests.lab.settings import FABRIC_NAMESPACE

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("ray_cluster")]


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
        refused("spark-2", "the rail enP2p1s0f0np0 has no carrier", "plug the cable in")
    finally:
        cluster.lab("heal", "spark-2:rail1")


@pytest.mark.long
def test_an_mtu_that_does_not_get_through_is_named() -> None:
    ip = ["ip", "-n", FABRIC_NAMESPACE, "link", "set", "tnd2-rail0", "mtu"]
    subprocess.run([*ip, "1500"], check=True)
    try:
        refused("the fabric does not carry MTU 9000", "enp1s0f0np0 ->", "9000 bytes do not")
    finally:
        subprocess.run([*ip, "9000"], check=True)


def test_a_port_of_somebody_else_is_named() -> None:
    on(HEAD, "systemd-run --unit=lab-squatter python3 -m http.server 8005")
    try:
        time.sleep(1)
        refused("spark-1", "port 8005 is held by python3", "`engine_port`", engine_port=8005)
    finally:
        on(HEAD, "systemctl stop lab-squatter")


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
    on(HEAD, f"rm -rf /root/model && cp -rL {cluster.STORE}/snapshots/{model.revision()} /root/model")
    on(HEAD, "truncate --size=-1 /root/model/model-00002-of-00002.safetensors")
    recipe = tmp_path / "lab-tiny-llama.yaml"
    shipped = (cluster.ROOT / "files/recipes/lab-tiny-llama.yaml").read_text()
    recipe.write_text(shipped.replace(model.revision(), "a" * 40))
    refused("model-00002-of-00002.safetensors has", "its header says", model_from="/root/model", recipe=str(recipe))
    on(HEAD, "rm /root/model/model-00001-of-00002.safetensors")
    refused("model-00001-of-00002.safetensors is missing", model_from="/root/model", recipe=str(recipe))


def test_a_disk_that_is_too_small_is_named(tmp_path: Path) -> None:
    recipe = tmp_path / "lab-tiny-llama.yaml"
    shipped = (cluster.ROOT / "files/recipes/lab-tiny-llama.yaml").read_text()
    recipe.write_text(shipped.replace(model.revision(), "a" * 40).replace("disk_gib: 0.01", "disk_gib: 9000"))
    refused("GiB free", "9000 GiB are needed", recipe=str(recipe))


def inventory_with(tmp_path: Path, **changes: Any) -> str:
    """The lab's inventory with another second node."""
    file = tmp_path / "nodes.py"
    file.write_text(
        f"import sys; sys.path.insert(0, {str(cluster.ROOT)!r})\n"
        "from tests.lab.inventory import nodes as _nodes\n"
        f"nodes = [_nodes[0], (_nodes[1][0], {{**_nodes[1][1], **{changes!r}}})]\n"
    )
    return str(file)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ssh_hostname": "10.213.77.99"}, ["spark-2 does not answer (", "switch it on", "topology=solo serves on"]),
        ({"ssh_user": "nobody"}, ["spark-2 refuses the login nobody@10.213.77.12", "ssh-copy-id"]),
    ],
    ids=["does not answer", "refuses the key"],
)
def test_a_node_out_of_reach_stops_the_deploy(tmp_path: Path, changes: dict[str, object], said: list[str]) -> None:
    before = on(HEAD, "docker inspect --format '{{.Id}}' tandem-engine")
    done = deploy(inventory=inventory_with(tmp_path, **changes), topology="replicas")
    assert done.code == 1
    for words in said:
        assert words in done.text, done.text
    assert "Traceback" not in done.text
    assert on(HEAD, "docker inspect --format '{{.Id}}' tandem-engine") == before


@pytest.mark.long
@pytest.mark.usefixtures("ray_cluster")
def test_with_a_node_off_status_says_so_in_seconds_and_a_deploy_is_refused(at: dict[str, str]) -> None:
    power_off(WORKER)
    try:
        start = time.monotonic()
        argv = ["make", "-s", "status", f"INVENTORY={cluster.INVENTORY}"]
        told = subprocess.run(argv, cwd=cluster.ROOT, capture_output=True, text=True, check=True).stdout
        assert time.monotonic() - start < 10
        assert "spark-1  tandem-engine" in told
        (line,) = [line for line in told.splitlines() if line.startswith("spark-2 does not answer (")]
        assert "no rank can serve without it, the others wait for it and meet again when it is back" in line
        assert "switch it on" in line
        said = deploy(topology="cluster")
        assert said.code == 1 and "Traceback" not in said.text
        assert "spark-2  does not answer (" in said.text and "topology=solo serves on spark-1 alone" in said.text
    finally:
        power_on(WORKER)
        wait_until_up(WORKER)
    cluster.wait_until_served(at)
