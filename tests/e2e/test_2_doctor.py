"""`tandem doctor` on the lab: what can be caused there is caused, and found; what was caused is gone afterwards.

With replicas: they use the rails, and no rank ends while one of these is pulled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.chaos.running_short import full, room_again
from tests.chaos.scene import Scene
from tests.lab import cluster
from tests.lab.cluster import HEAD, WORKER, deploy, doctor, on
from tests.lab.settings import LINKS

pytestmark = pytest.mark.lab

#: A stand-in for a program that keeps the clock: the lab's nodes have this machine's clock and none of their own.
CLOCK_DOUBLE = "/etc/systemd/system/chrony.service"


@pytest.fixture(scope="module")
def replicas(lab: None) -> None:
    """The lab with replicas."""
    done = deploy(topology="replicas")
    assert done.code == 0, done.text


@contextmanager
def healed(before: str, after: str, *words: str) -> Iterator[list[str]]:
    """The bad rows while `before` is done to the worker; `after` undoes it."""
    try:
        on(WORKER, before)
        yield doctor(*words)[2]
    finally:
        on(WORKER, after)


@pytest.mark.usefixtures("replicas")
def test_a_lab_that_serves_has_nothing_bad_and_its_cables_are_found() -> None:
    code, told, bad = doctor()
    assert bad == [] and code == 0, told
    assert f"spark-1 {LINKS['rail0']} <-> spark-2 {LINKS['rail0']}" in told
    assert f"spark-2 {LINKS['rail1']} -> spark-1 {LINKS['rail1']}: TCP" in told
    assert "all: no GPU: clocks, power, heat" in told and "all: RDMA: no RDMA device is here" in told


@pytest.mark.usefixtures("replicas")
def test_nothing_is_changed_and_nothing_stays_behind() -> None:
    listening = on(WORKER, "ss -Htln | awk '{print $4}' | sort")
    doctor()
    assert on(WORKER, "ss -Htln | awk '{print $4}' | sort") == listening
    assert cluster.containers(WORKER) == cluster.SERVING
    assert deploy(topology="replicas").changes == 0


@pytest.mark.usefixtures("replicas")
def test_an_unplugged_rail_is_found() -> None:
    cluster.lab("cut", "spark-2:rail1")
    try:
        code, _, bad = doctor("NET=0")
    finally:
        cluster.lab("heal", "spark-2:rail1")
    # A cable has two ends.
    assert code != 0 and any(f"all the rail {LINKS['rail1']} has no carrier" in row for row in bad), bad


@pytest.mark.usefixtures("replicas")
def test_a_wrong_mtu_is_found_on_the_port_and_on_the_way() -> None:
    link = f"ip link set {LINKS['rail0']} mtu"
    with healed(f"{link} 1500", f"{link} 9000", "NET=0") as bad:
        assert any(f"{LINKS['rail0']} has MTU 1500, not 9000" in row for row in bad), bad
        assert any("small packets do, 9000 bytes do not" in row for row in bad), bad


@pytest.mark.usefixtures("replicas")
def test_another_nccl_in_the_image_of_one_node_is_found() -> None:
    """The worker's image gets the metadata of a wheel, under the name that the plan knows; the head's has none."""
    image = on(HEAD, "docker inspect --format '{{.Config.Image}}' tandem-engine").strip()
    info = "nvidia_nccl_cu13-2.99.0.dist-info"
    # Where the image's own Python looks.
    site = on(
        WORKER,
        f"docker run --rm --network none --entrypoint python3 {image} -c "
        "'import sysconfig; print(sysconfig.get_paths()[\"purelib\"])'",
    ).strip()
    make = (
        f"mkdir -p /run/nccl/{info} && "
        f"printf 'Metadata-Version: 2.1\\nName: nvidia-nccl-cu13\\nVersion: 2.99.0\\n' >/run/nccl/{info}/METADATA && "
        f"docker tag {image} tandem-doctor:kept && docker create --name by-hand {image} && "
        f"docker cp /run/nccl/{info} by-hand:{site}/ && docker commit by-hand {image}"
    )
    undo = (
        f"docker rm by-hand; docker tag tandem-doctor:kept {image}; docker rmi tandem-doctor:kept; "
        "docker image prune --force; rm -rf /run/nccl"
    )
    with healed(make, undo, "NET=0") as bad:
        assert any("different NCCLs: spark-1 has none, spark-2 has 2.99.0" in row for row in bad), bad


@pytest.mark.usefixtures("replicas")
def test_a_full_disk_is_found() -> None:
    scene = Scene.named("replicas/balanced")
    full(WORKER, "/var/lib/tandem")(scene)
    try:
        _, _, bad = doctor("NET=0")
    finally:
        room_again(WORKER, "/var/lib/tandem")(scene)
    assert any("spark-2" in row and "the disk of /var/lib/tandem is full: 0.0 of" in row for row in bad), bad


@pytest.mark.usefixtures("replicas")
def test_a_stopped_clock_service_is_found() -> None:
    unit = "[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n"
    reload = "systemctl daemon-reload"
    made = f"printf '{unit}' >{CLOCK_DOUBLE}; {reload}; systemctl enable --quiet --now chrony"
    gone = f"systemctl disable --quiet --now chrony; rm -f {CLOCK_DOUBLE}; {reload}"
    with healed(made, "systemctl stop chrony", "NET=0") as bad:
        assert not any("clock service" in row for row in bad), bad
    with healed("true", gone, "NET=0") as bad:
        assert any("spark-2" in row and "the clock service chrony is stopped" in row for row in bad), bad


@pytest.mark.usefixtures("replicas")
def test_somebody_on_a_port_of_tandem_s_is_found() -> None:
    """The engine's port on loopback, where the engine of replicas does not listen."""
    held = "systemd-run --quiet --unit=by-hand python3 -m http.server --bind 127.0.0.1 8001"
    with healed(f"{held}; sleep 1", "systemctl stop by-hand", "NET=0") as bad:
        assert any("port 8001 is held by python3" in row for row in bad), bad
