"""Every topology and executor on the lab, with the real engine: deployed, proven, deployed again without a change."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from operations.paths import PROXY_KEY, PROXY_USER, RAY_TOKEN
from tests.chaos import client, row
from tests.chaos.deploying import changed_recipe
from tests.chaos.fault import Fault
from tests.chaos.faults import fast
from tests.chaos.scene import Scene
from tests.lab import cluster, model
from tests.lab.cluster import HEAD, WORKER, begin, deploy, on
from tests.lab.hub import Hub, serve
from tests.lab.node import power_off, power_on, wait_until_up
from tests.lab.settings import ARTEFACTS, MANAGEMENT_NET

FOLDER = model.RECIPE.model.folder

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("lab")]


def wait_for(what: Callable[[], bool], within_s: float = 60) -> None:
    """Until it is so."""
    end = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < end, f"not after {within_s} s"
        time.sleep(0.5)


def assert_settled(**knobs: Any) -> None:
    """A second run changes nothing."""
    again = deploy(**knobs)
    assert again.code == 0, again.text
    assert again.changes == 0, again.text


def test_a_first_deploy_of_a_ray_cluster_shows_no_secret_and_answers() -> None:
    first = deploy("-vvv", "--diff", topology="cluster", executor="ray")
    assert first.code == 0, first.text[-5000:]
    key = on(HEAD, f"cat {PROXY_KEY}").strip()
    token = on(HEAD, f"cat {RAY_TOKEN}").strip()
    assert len(key) > 30 and len(token) > 30
    assert key not in first.text
    assert token not in first.text


def test_a_cluster_is_settled(at: dict[str, str]) -> None:
    assert cluster.complete(at) == 8
    assert_settled(topology="cluster", executor="ray")


def test_without_y_it_says_what_it_will_do_and_asks() -> None:
    argv = [sys.executable, "-m", "pyinfra", cluster.INVENTORY, "deploy.py", "--data", "executor=ray"]
    asked = subprocess.run(argv, input="\n", capture_output=True, text=True, cwd=cluster.ROOT, check=False)
    assert asked.returncode == 0, asked.stderr
    assert "Press enter to execute" in asked.stderr
    assert "Success" not in asked.stderr.split("Press enter")[1].split("Results")[0]


def test_a_dry_run_tells_what_a_switch_would_change_and_changes_nothing() -> None:
    before = on(HEAD, "docker inspect --format '{{.Id}}' tandem-engine")
    argv = [sys.executable, "-m", "pyinfra", cluster.INVENTORY, "deploy.py", "--dry", "--diff"]
    argv += ["--data", "topology=replicas"]
    dry = subprocess.run(argv, capture_output=True, text=True, cwd=cluster.ROOT, check=False)
    assert dry.returncode == 0, dry.stderr
    text = re.sub(r"\x1b\[[0-9;]*m", "", dry.stderr)
    assert "- Description=Tandem engine (lab-tiny-llama, rank 0 of 2)" in text
    assert "+ Description=Tandem engine (lab-tiny-llama, replicas)" in text
    assert on(HEAD, "docker inspect --format '{{.Id}}' tandem-engine") == before
    assert_settled(topology="cluster", executor="ray")


def test_no_secret_can_be_read_where_others_look() -> None:
    key = on(HEAD, f"cat {PROXY_KEY}").strip()
    token = on(HEAD, f"cat {RAY_TOKEN}").strip()
    for node in (HEAD, WORKER):
        seen = {
            "argv": on(node, "ps axww -o args"),
            "units": on(node, "cat /etc/systemd/system/tandem-*"),
            "scripts": on(node, "cat /etc/tandem/engine/* /etc/tandem/proxy/* 2>/dev/null", check=False),
            "journal": on(node, "journalctl --no-pager"),
            "inspect": on(node, "docker inspect $(docker ps --all --quiet)"),
        }
        for where, text in seen.items():
            assert key not in text, f"the key is in {where} of {node.name}"
            assert token not in text, f"the token is in {where} of {node.name}"
        modes = on(node, "stat --format='%a %u %n' /etc/tandem/*/secrets/*").splitlines()
        for mode, user, path in (line.split() for line in modes):
            assert (mode, user) == ("600", str(PROXY_USER) if "/proxy/" in path else "0"), path


def test_a_cluster_s_traffic_takes_the_rails(at: dict[str, str]) -> None:
    links = ("enp1s0f0np0", "enP7s7")
    before = [cluster.link_bytes(WORKER, link) for link in links]
    cluster.complete_many(at, 20)
    rail, management = (cluster.link_bytes(WORKER, link) - b for link, b in zip(links, before, strict=True))
    # Each token of each layer is summed up over both ranks: with 8 tokens some 50 kB and more for each request.
    assert rail > 20 * 50_000
    assert management < rail / 10


def test_solo_leaves_the_worker_empty(at: dict[str, str]) -> None:
    switched = deploy(topology="solo")
    assert switched.code == 0, switched.text
    assert cluster.complete(at) == 8
    assert cluster.containers(WORKER) == []
    assert on(WORKER, "ls /etc/systemd/system/tandem-* 2>/dev/null", check=False) == ""
    assert on(WORKER, "docker images --quiet").strip() != ""
    assert_settled(topology="solo")


@pytest.mark.parametrize("fault", fast("solo"), ids=lambda fault: fault.name)
def test_a_fault_of_a_solo_is_survived(at: dict[str, str], fault: Fault) -> None:
    assert row.run(Scene("solo", "ray").look(), fault).problems == []


def test_solo_is_deployed_with_the_other_node_off(at: dict[str, str]) -> None:
    power_off(WORKER)
    try:
        done = deploy(topology="solo")
        assert done.code == 0, done.text
        assert "spark-2 does not answer" in done.text and "this plan needs nothing of it" in done.text
        assert cluster.complete(at) == 8
        assert_settled(topology="solo")
    finally:
        power_on(WORKER)
        wait_until_up(WORKER)


class HeldHub(Hub):
    """Keeps the files back until it is let go: a download is under way as long as a test wants."""

    goes = threading.Event()

    def _file(self, repo: str, revision: str, name: str) -> None:
        if self.command == "GET":
            self.goes.wait(120)
        super()._file(repo, revision, name)


@pytest.fixture
def hub() -> Iterator[str]:
    """A Hub on the management network that wants a token; its URL."""
    server = serve(ARTEFACTS / "hub", 8099, token="hf_lab", kind=HeldHub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://{MANAGEMENT_NET}.1:8099"
    server.shutdown()
    server.server_close()


def test_a_model_comes_from_the_hub_with_a_token(at: dict[str, str], hub: str) -> None:
    wanted = {
        "topology": "solo",
        "model_from": "hub",
        "hub_endpoint": hub,
        "hub_token_file": "/root/hub.token",
        "model_store": "/home/spark/another/hub",
    }
    on(HEAD, "umask 077; echo hf_wrong > /root/hub.token")
    refused = deploy(**wanted)
    assert refused.code == 1
    assert "is gated: accept its terms" in refused.text
    assert "Traceback" not in refused.text
    # The old store's engine serves on.
    assert cluster.complete(at) == 8

    on(HEAD, "echo hf_lab > /root/hub.token")
    killed = begin(**wanted)
    wait_for(lambda: "tandem-download" in cluster.containers(HEAD))
    killed.kill()
    killed.communicate()
    wait_for(lambda: "tandem-download" not in cluster.containers(HEAD))
    assert cluster.complete(at) == 8

    HeldHub.goes.set()
    done = deploy("-vvv", "--diff", **wanted)
    assert done.code == 0, done.text[-5000:]
    assert "hf_lab" not in done.text
    assert cluster.complete(at) == 8
    owners = on(HEAD, "find /home/spark/another -printf '%u\\n' | sort -u").split()
    assert owners == ["spark"]
    assert_settled(**wanted)

    # The Hub's client would take a truncated file for a whole one.
    shard = f"/home/spark/another/hub/{FOLDER}/snapshots/{model.revision()}/model-00001-of-00002.safetensors"
    on(HEAD, f"truncate --size=-100 $(readlink -f {shard})")
    mended = deploy(**wanted)
    assert mended.code == 0, mended.text
    assert "model-00001-of-00002.safetensors is not whole: set aside" in mended.text
    assert_settled(**wanted)

    on(HEAD, "chmod 644 /root/hub.token")
    assert "others can read the token" in deploy(**wanted).text


def test_an_image_is_built_on_the_head(at: dict[str, str]) -> None:
    wanted = {"topology": "solo", "engine_image_from": "build:tests/e2e/images/derived"}
    built = deploy(**wanted)
    assert built.code == 0, built.text
    assert "s were the engine's own start" in built.text
    assert "DERIVED=1" in on(HEAD, "docker inspect tandem-engine")
    assert cluster.complete(at) == 8
    assert_settled(**wanted)


def test_a_solo_becomes_replicas_without_a_request_lost_and_they_share_the_work(at: dict[str, str]) -> None:
    with client.load(at, client.learn(at)) as seen:
        seen.pause_s = row.PAUSE_S
        switched = deploy(topology="replicas")
    assert switched.code == 0, switched.text
    assert seen.answered > 20
    assert str(seen) == f"{seen.sent} sent, {seen.sent} answered"
    assert cluster.containers(HEAD) == cluster.containers(WORKER) == cluster.SERVING
    assert "replicas" in on(WORKER, "docker inspect tandem-engine")
    addresses = {HEAD: "192.168.177.11", WORKER: "192.168.177.12"}
    # An engine counts what its canary asks as well.
    for node in addresses:
        on(node, "systemctl stop tandem-canary")
    try:
        # The head's was asked in vain while it was renewed: the proxies leave it alone for some seconds more.
        last = cluster.requests_served(HEAD, addresses[HEAD])
        wait_for(
            lambda: cluster.complete_many(at, 8) == [8] * 8 and cluster.requests_served(HEAD, addresses[HEAD]) > last
        )
        before = {node: cluster.requests_served(node, address) for node, address in addresses.items()}
        assert cluster.complete_many(at, 40) == [8] * 40
        served = [cluster.requests_served(node, address) - before[node] for node, address in addresses.items()]
    finally:
        for node in addresses:
            on(node, "systemctl start tandem-canary")
    assert sum(served) == 40
    assert min(served) > 0, served
    assert_settled(topology="replicas")


@pytest.fixture(scope="module")
def replicas() -> Scene:
    """What the tests before have deployed, with the right answers of its model."""
    return Scene.named("replicas/balanced").look()


@pytest.mark.parametrize("fault", fast("replicas"), ids=lambda fault: fault.name)
def test_a_fault_of_one_replica_costs_no_request(replicas: Scene, fault: Fault) -> None:
    assert row.run(replicas, fault).problems == []


def test_a_rolling_renewal_costs_no_request(replicas: Scene) -> None:
    with client.load(replicas.at, replicas.expected) as seen:
        seen.pause_s = row.PAUSE_S
        renewed = deploy(topology="replicas", recipe=str(changed_recipe()))
    assert renewed.code == 0, renewed.text
    assert seen.answered > 20
    assert str(seen) == f"{seen.sent} sent, {seen.sent} answered"


def test_mp_needs_no_ray(at: dict[str, str]) -> None:
    switched = deploy(topology="cluster", executor="mp")
    assert switched.code == 0, switched.text
    assert cluster.complete(at) == 8
    assert "ray" not in on(WORKER, "ps ax -o comm").split()
    assert_settled(topology="cluster", executor="mp")


def test_back_to_the_cluster_by_two_deploys_at_once_and_a_lock_that_can_t_go_stale(at: dict[str, str]) -> None:
    wanted = {"topology": "cluster", "executor": "ray"}
    first = begin(**wanted)
    assert first.stderr is not None
    for line in first.stderr:
        if "a token from each" in line:
            break
    second = deploy(topology="replicas")
    assert second.code == 1
    assert "another deploy is at work" in second.text
    assert f"(pid {first.pid}) since 20" in second.text
    assert "Traceback" not in second.text
    # Killed in the middle: nothing holds the lock, and the next deploy brings everything in line.
    first.kill()
    first.communicate()
    third = deploy(**wanted)
    assert third.code == 0, third.text
    assert cluster.complete(at) == 8
    assert_settled(**wanted)
