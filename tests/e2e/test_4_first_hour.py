"""What stops a first deploy on real machines is found by `tandem check` in one table, before anything is copied.

No host of the lab has a GPU: its driver and its nvidia-smi are doubles (tests/node/doubles/nvidia_smi_double). Docker,
sudo, the store, the rails and the login over one of them are real.
"""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.lab import cluster
from tests.lab.cluster import HEAD, WORKER, deploy, on
from tests.lab.node import ssh_argv
from tests.lab.settings import KNOWN_HOSTS, LINKS, LOGIN, LabNode
from tests.support.ports import free_port

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("ray_cluster", "spark")]

DOUBLE = cluster.ROOT / "tests/node/doubles/nvidia_smi_double"
STATE = "/etc/nvidia_smi_double.env"
VERSION, DAEMON = "/proc/driver/nvidia/version", "/etc/docker/daemon.json"
#: What the first of them says on a Spark: a kernel has no such file without the driver.
MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build"
DESKTOP = "2101, /usr/libexec/gnome-remote-desktop-daemon, 340"
#: A runtime of that name, by which the preflight knows NVIDIA's toolkit; Docker has no driver behind it.
RUNTIMES = '{"runtimes": {"nvidia": {"path": "/usr/bin/runc"}}}'
#: What a check leaves as it was.
TOUCHED = f"docker ps --all --quiet --no-trunc; docker images --quiet; find /home/{LOGIN}/.cache | sort"
#: A program on the GPU that no node has: a process of that number may be Tandem's own, and no kernel counts so far.
STRANGER = 4_711_000
#: Seconds for a check that finds something: a survey of two nodes, and a start of the image.
SECONDS = 60


@pytest.fixture(scope="module")
def spark(ray_cluster: None) -> Iterator[None]:
    """Both nodes as if they had a GPU, with a desktop on it."""
    for node in (HEAD, WORKER):
        (node.root / "usr/local/bin/nvidia-smi").write_bytes(DOUBLE.read_bytes())
        (node.root / "usr/local/bin/nvidia-smi").chmod(0o755)
        on(node, f"mount -t tmpfs double /proc/driver && mkdir /proc/driver/nvidia && echo '{MODULE}' >{VERSION}")
        on(node, f"test ! -e {DAEMON} && echo '{RUNTIMES}' >{DAEMON} && systemctl reload docker")
        says(node, apps=DESKTOP)
    yield
    for node in (HEAD, WORKER):
        on(node, f"rm -f /usr/local/bin/nvidia-smi {STATE} {DAEMON}; systemctl reload docker; umount /proc/driver")


def says(node: LabNode, apps: str = "", fault: str = "") -> None:
    """What nvidia-smi says on a node from now on."""
    on(node, f"printf \"DOUBLE_APPS='%s'\\nDOUBLE_FAULT={fault}\\n\" '{apps}' >{STATE}")


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    """The lab's recipe, for a GPU."""
    file = tmp_path / "lab-tiny-llama.yaml"
    shipped = (cluster.ROOT / "files/recipes/lab-tiny-llama.yaml").read_text()
    file.write_text(shipped.replace("  gpu: false\n", "  gpu: true\n"))
    return str(file)


def checked(**knobs: Any) -> tuple[str, float]:
    """What the check says where it refuses, and in how many seconds; nothing of the cluster is touched."""
    before = [on(node, TOUCHED) for node in (HEAD, WORKER)]
    begun = time.monotonic()
    said = deploy(file="operations/verbs/check.py", topology="cluster", executor="ray", **knobs)
    seconds = time.monotonic() - begun
    assert said.code == 1 and "Traceback" not in said.text, said.text
    assert [on(node, TOUCHED) for node in (HEAD, WORKER)] == before
    assert seconds < SECONDS
    print(f"{seconds:.1f} s\n{said.text}")
    return re.sub(r"\s+", " ", said.text), seconds


@contextmanager
def over_a_rail(folder: Path) -> Iterator[str]:
    """The lab's inventory, whose second node is logged in to from the first one over a rail, as from its keyboard."""
    rail = on(WORKER, f"ip -4 -o address show {LINKS['rail0']}").split()[3].partition("/")[0]
    port = free_port()
    hosts, file = folder / "known_hosts", folder / "nodes.py"
    known = KNOWN_HOSTS.read_text()
    hosts.write_text(known + known.replace(f"{WORKER.address} ", f"[127.0.0.1]:{port} "))
    more = {"ssh_hostname": "127.0.0.1", "ssh_port": port, "ssh_known_hosts_file": str(hosts)}
    file.write_text(
        f"import sys; sys.path.insert(0, {str(cluster.ROOT)!r})\n"
        "from tests.lab.inventory import nodes as _nodes\n"
        f"nodes = [_nodes[0], (_nodes[1][0], {{**_nodes[1][1], **{more!r}}})]\n"
    )
    way = [*ssh_argv(HEAD), "-N", "-o", "ExitOnForwardFailure=yes", "-L", f"127.0.0.1:{port}:{rail}:22"]
    with subprocess.Popen(way) as forward:
        try:
            for _ in range(100):
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.1)
            yield str(file)
        finally:
            forward.terminate()


def test_everything_that_stops_a_first_deploy_is_in_one_table(tmp_path: Path, recipe: str) -> None:
    says(HEAD, apps=f"{DESKTOP}\n{STRANGER}, /opt/comfyui/venv/bin/python3, 20480")
    says(WORKER, fault="mismatch")
    roots = "/home/spark/.cache/roots"
    on(WORKER, f"mkdir {roots}")
    try:
        with over_a_rail(tmp_path) as inventory:
            said, _ = checked(inventory=inventory, recipe=recipe, model_store="~/.cache/roots/hub")
    finally:
        on(WORKER, f"rmdir {roots}")
        says(HEAD, apps=DESKTOP)
        says(WORKER, apps=DESKTOP)
    # A remark beside an engine that serves, and a finding where none does.
    assert f"another program computes on the GPU: /opt/comfyui/venv/bin/python3 (pid {STRANGER}) with 20.0 GiB" in said
    assert "gnome" not in said
    assert "spark-2 nvidia-smi ends with 18 (Failed to initialize NVML: Driver/library version mismatch)" in said
    assert "is still loaded [gpu-driver-fails] -> reboot it" in said
    assert f"spark-2 {roots} is not the login's" in said and f'sudo chown -R "$USER": {roots}' in said
    rail = f"spark-2 the login goes to 192.168.177.12, an address of the rail `{LINKS['rail0']}`"
    assert rail in said and "`ssh_hostname` in inventory.py" in said


def test_a_toolkit_without_its_hook_is_found_by_a_start_of_the_image(recipe: str) -> None:
    said, _ = checked(recipe=recipe)
    for node in ("spark-1", "spark-2"):
        words = f"{node} the engine's image does not start with the GPU: docker: Error response from daemon: could not"
        assert words in said
    assert "sudo apt install nvidia-container-toolkit" in said
