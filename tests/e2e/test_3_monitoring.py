"""Metrics on the lab: each node's exporter under its sandbox, what it says against what is so, and who reaches it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.lab import chat, cluster
from tests.lab.cluster import HEAD, WORKER, deploy, on
from tests.lab.settings import LabNode

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("lab")]

UNIT = "tandem-exporter"
#: As one who has an own Prometheus would.
KNOBS = {"topology": "replicas", "monitoring": "metrics", "tls": "self"}


@pytest.fixture(scope="module", autouse=True)
def deployed(lab: None) -> Iterator[None]:
    done = deploy(**KNOBS)
    assert done.code == 0, done.text
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REQUESTS_CA_BUNDLE", chat.endpoint()["SSL_CERT_FILE"])
        yield


def target(node: LabNode) -> str:
    return f"192.168.177.{11 + node.index}:8020"


def metrics(node: LabNode) -> dict[str, float]:
    """What the node's exporter says, asked from the other node over the rail."""
    return read(on(WORKER if node is HEAD else HEAD, f"curl -sf -m 20 http://{target(node)}/metrics"))


def own_metrics(node: LabNode) -> dict[str, float]:
    """The same, asked on the node: in solo it listens there alone."""
    return read(on(node, "curl -sf -m 20 http://127.0.0.1:8020/metrics"))


def read(said: str) -> dict[str, float]:
    lines = [line for line in said.splitlines() if line and not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


@pytest.mark.parametrize("node", [HEAD, WORKER], ids=lambda node: node.name)
def test_a_node_says_what_is_so(node: LabNode) -> None:
    at = chat.endpoint()
    before = sum(value for name, value in metrics(node).items() if name.startswith("vllm:generation_tokens_total"))
    cluster.complete_many(at, 16)
    time.sleep(2)
    found = metrics(node)
    assert found["tandem_exporter_failed"] == 0, found
    for unit in ("engine", "proxy", "litellm-a", "litellm-b", "canary", "guard", "firewall"):
        model = ',model="tiny-llama"' if unit == "engine" else ""
        assert found[f'tandem_unit_active{{unit="tandem-{unit}"{model}}}'] == 1
        assert found[f'tandem_unit_restarts{{unit="tandem-{unit}"{model}}}'] == 0
    assert found['tandem_source_up{source="engine",model="tiny-llama"}'] == 1
    assert found['tandem_source_up{source="proxy"}'] == 1
    rails = [name for name in found if name.startswith("tandem_rail_carrier")]
    assert len(rails) == 2 and all(found[name] == 1 for name in rails)
    total = int(on(node, "sed -n 's/^MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo")) * 1024
    assert found["tandem_memory_bytes"] == total and found["tandem_memory_available_bytes"] < total
    assert any("store" not in name and 'path="/' in name for name in found if name.startswith("tandem_disk_free"))
    left_s = found["tandem_certificate_ends_timestamp_seconds"] - time.time()
    assert 390 * 86400 < left_s < 398 * 86400
    assert sum(value for name, value in found.items() if name.startswith("vllm:generation_tokens_total")) > before
    assert any(name.startswith("haproxy_frontend_http_requests_total") for name in found)
    assert not [name for name in found if name.startswith("tandem_gpu") or "tandem-fallback" in name]


def test_a_unit_that_is_gone_and_a_problem_are_seen() -> None:
    on(WORKER, "systemctl stop tandem-guard")
    try:
        # What was said a moment ago is said again.
        time.sleep(1.5)
        assert metrics(WORKER)['tandem_unit_active{unit="tandem-guard"}'] == 0
    finally:
        on(WORKER, "systemctl start tandem-guard")


def test_it_is_bounded_and_has_one_right() -> None:
    for node in (HEAD, WORKER):
        for _ in range(5):
            metrics(node)
            time.sleep(1.1)
        properties = "MainPID,MemoryMax,CPUQuotaPerSecUSec,OOMScoreAdjust,NRestarts"
        said = dict(
            line.split("=", 1) for line in on(node, f"systemctl show {UNIT} --property={properties}").splitlines()
        )
        assert (said["MemoryMax"], said["CPUQuotaPerSecUSec"]) == (str(128 << 20), "200ms")
        assert (said["OOMScoreAdjust"], said["NRestarts"]) == ("1000", "0")
        status = on(node, f"cat /proc/{said['MainPID']}/status")
        resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        ticks = on(node, f"cat /proc/{said['MainPID']}/stat").rpartition(")")[2].split()[11:13]
        print(f"{node.name}: {resident}, {sum(map(int, ticks)) * 10} ms of CPU so far", end=", ")
        print(f"a scrape takes {metrics(node)['tandem_exporter_seconds'] * 1000:.0f} ms")
        # DAC_READ_SEARCH
        assert f"CapBnd:\t{1 << 2:016x}" in status and "NoNewPrivs:\t1" in status


def test_from_the_office_nobody_reaches_it() -> None:
    for node in (HEAD, WORKER):
        assert on(node, "ss -Hltn sport = :8020").split()[3] == target(node)
        argv = ["curl", "-s", "-m", "3", "-o", "/dev/null", f"http://{node.address}:8020/metrics"]
        assert subprocess.run(argv, check=False).returncode != 0


def test_a_second_deploy_changes_nothing_and_scrape_config_names_both() -> None:
    again = deploy(**KNOBS)
    assert (again.code, again.changes) == (0, 0), again.text
    data = " ".join(f"{name}={value}" for name, value in KNOBS.items())
    argv = ["make", "-s", "scrape-config", f"INVENTORY={cluster.INVENTORY}"]
    said = subprocess.run([*argv, f"DATA={data}"], cwd=cluster.ROOT, capture_output=True, text=True, check=True).stdout
    assert all(target(node) in said and node.name in said for node in (HEAD, WORKER))
    off = subprocess.run(argv, cwd=cluster.ROOT, capture_output=True, text=True, check=True)
    assert off.stdout == "" and "note: nothing is exported" in off.stderr


def test_without_the_knob_it_is_gone_and_no_engine_was_touched() -> None:
    before = [on(node, "docker inspect --format '{{.Id}}' tandem-engine") for node in (HEAD, WORKER)]
    done = deploy(**KNOBS | {"monitoring": "off"})
    assert done.code == 0, done.text
    for node in (HEAD, WORKER):
        assert on(node, f"systemctl list-unit-files {UNIT}.service -q; ls /etc/tandem/exporter 2>/dev/null; true") == ""
        assert on(node, "ss -Hltn sport = :8020").strip() == ""
    assert [on(node, "docker inspect --format '{{.Id}}' tandem-engine") for node in (HEAD, WORKER)] == before
