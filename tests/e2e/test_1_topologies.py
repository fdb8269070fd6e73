"""Every topology and executor on the lab, with the real engine: deployed, proven, deployed again without a change."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from operations.paths import PROXY_KEY, PROXY_USER, RAY_TOKEN
from tests.chaos import client, row
from tests.e2e.settled import assert_settled, wait_for
from tests.lab import cluster
from tests.lab.cluster import HEAD, WORKER, deploy, on
from tests.lab.node import power_off, power_on, wait_until_up

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("lab")]


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


def test_a_solo_becomes_replicas_without_a_request_lost_and_they_share_the_work(at: dict[str, str]) -> None:
    # Few: two cores start the engines as well.
    with client.load(at, client.learn(at), clients=4) as seen:
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
