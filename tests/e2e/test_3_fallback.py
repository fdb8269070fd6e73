"""A cluster that falls back to one node: either node is without power, the other serves alone, and both meet again."""

from __future__ import annotations

import json
import shlex
import subprocess
import time

import pytest

from tests.chaos.acts import alone, off, power_again, until_alone
from tests.chaos.faults.absent import ALONE_S
from tests.chaos.scene import Scene
from tests.lab import cluster
from tests.lab.cluster import HEAD, WORKER, on
from tests.lab.settings import LabNode

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("lab")]


@pytest.fixture(scope="module")
def scene() -> Scene:
    """A cluster with mp, a virtual address, and 30 seconds of patience."""
    made = Scene.named("cluster/mp/fallback")
    done = made.deploy()
    assert done.code == 0, done.text
    return made.look()


def status() -> str:
    argv = ["make", "-s", "status", f"INVENTORY={cluster.INVENTORY}"]
    return " ".join(subprocess.run(argv, cwd=cluster.ROOT, capture_output=True, text=True, check=True).stdout.split())


def wait_until_together(scene: Scene, within_s: float = 150) -> float:
    """Seconds until all ranks serve as one cluster again."""
    start = time.monotonic()
    while True:
        met = [on(node, "cat /run/tandem/engine/meeting.json", check=False) for node in (HEAD, WORKER)]
        label = on(HEAD, "docker inspect --format '{{.Config.Labels}}' tandem-engine", check=False)
        if all('"met": true' in each for each in met) and "tandem.topology:cluster" in label and scene.proxy_answers():
            return time.monotonic() - start
        assert time.monotonic() - start < within_s, status()
        time.sleep(1)


def test_a_second_deploy_changes_nothing_and_nobody_listens_where_only_one_alone_would(scene: Scene) -> None:
    assert "the ranks are together" in status()
    again = scene.deploy()
    assert (again.code, again.changes) == (0, 0), again.text
    assert on(WORKER, "ss -Hltn sport = :8001").strip() == ""
    for node in (HEAD, WORKER):
        left = on(node, "systemctl show tandem-fallback --property=ExecMainStatus,NRestarts,ActiveState")
        assert "ActiveState=active" in left and "NRestarts=0" in left, left


@pytest.mark.parametrize(("gone", "left"), [(WORKER, HEAD), (HEAD, WORKER)], ids=["the worker", "the head"])
def test_one_is_off_the_other_serves_alone_and_both_meet_again(scene: Scene, gone: LabNode, left: LabNode) -> None:
    start = time.monotonic()
    off(gone)(scene)
    until_alone(left, ALONE_S)(scene)
    took = time.monotonic() - start
    assert gone.name in alone(left)
    # The same address and key, the same name, the same words.
    assert cluster.complete(scene.at) == 8
    said = status()
    assert f"{left.name} serves alone since" in said and f"because {gone.name} is missing since" in said, said
    assert '"killed": {}' in on(left, "cat /run/tandem/canary.json")
    refused = scene.deploy()
    assert refused.code != 0 and "nothing was changed" in refused.text
    assert alone(left)
    back = time.monotonic()
    power_again(gone)(scene)
    together = wait_until_together(scene)
    print(f"{gone.name} off: alone after {took:.0f} s; a cluster {together:.0f} s after it was booted", end=" ")
    print(f"({time.monotonic() - back:.0f} s after the plug was in)")
    assert not any(alone(node) for node in (HEAD, WORKER))
    again = scene.deploy()
    assert (again.code, again.changes) == (0, 0), again.text


def test_who_serves_alone_waits_for_requests_and_a_deploy_does_not(scene: Scene) -> None:
    off(WORKER)(scene)
    until_alone(HEAD, ALONE_S)(scene)
    # A client that streams without an end holds it back.
    body = json.dumps({"model": "tiny-llama", "prompt": "1", "max_tokens": 4000, "ignore_eos": True, "stream": True})
    asks = f"curl -sN {scene.engines[HEAD]}/v1/completions -H Content-Type:application/json -d {shlex.quote(body)}"
    on(HEAD, f"systemd-run --quiet --unit lab-client sh -c {shlex.quote(f'while :; do {asks} > /dev/null; done')}")
    try:
        power_again(WORKER)(scene)
        waits = "a cluster again as soon as no request is under way"
        start = time.monotonic()
        while waits not in (said := status()):
            assert time.monotonic() - start < 90, said
            time.sleep(1)
        time.sleep(10)
        assert alone(HEAD)
        assert "serves alone" in on(WORKER, "cat /run/tandem/fallback.json")
        done = scene.deploy()
        assert done.code == 0 and "in the place of a cluster: that ends here" in done.text, done.text
    finally:
        on(HEAD, "systemctl stop lab-client", check=False)
    assert wait_until_together(scene) < 60
    assert not alone(HEAD)


def test_without_the_knob_nothing_of_it_is_left(scene: Scene) -> None:
    before = on(HEAD, "docker inspect --format '{{.Id}}' tandem-engine")
    done = scene.deploy(fallback="off")
    assert done.code == 0, done.text
    for node in (HEAD, WORKER):
        assert (
            on(node, "ls /etc/tandem/fallback 2>/dev/null; systemctl list-unit-files tandem-fallback.service -q; true")
            == ""
        )
    assert on(HEAD, "docker inspect --format '{{.Id}}' tandem-engine") == before
