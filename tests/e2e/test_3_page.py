"""The page on the lab: behind each node's door, under its sandbox, with the owner's key alone, and true."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from operations.paths import PAGE_SOCKET
from tests.e2e.test_3_monitoring import metrics
from tests.lab import chat, cluster
from tests.lab.cluster import HEAD, WORKER, deploy, on
from tests.lab.settings import LabNode

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("lab")]

UNIT = "tandem-page"
KNOBS = {"topology": "replicas", "monitoring": "metrics", "proxy_bind": "management"}


@pytest.fixture(scope="module", autouse=True)
def deployed(lab: None) -> Iterator[None]:
    done = deploy(**KNOBS)
    assert done.code == 0, done.text
    yield


def asked(node: LabNode, path: str, key: str | None) -> requests.Response:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return requests.get(f"http://{node.address}:8000/tandem/{path}", headers=headers, timeout=10)


def told(node: LabNode) -> Any:
    answer = asked(node, "state.json", chat.endpoint()["OPENAI_API_KEY"])
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text)


@pytest.mark.parametrize("node", [HEAD, WORKER], ids=lambda node: node.name)
def test_without_the_key_it_says_nothing(node: LabNode) -> None:
    for path in ("", "state.json", "events.json", "../v1/models"):
        for key in (None, "sk-wrong"):
            answer = asked(node, path, key)
            assert (answer.status_code, answer.content) == (401, b"") or path.startswith("..")
    # On its socket whoever is not the proxy is told even less.
    ask = f"curl -sS -m 5 -H 'Authorization: Bearer sk-x' --unix-socket {PAGE_SOCKET} http://page/tandem/"
    assert "Empty reply" in on(node, f"setpriv --reuid 65534 --clear-groups {ask} 2>&1", check=False)
    assert on(node, f"{ask} -o /dev/null -w '%{{http_code}}'") == "401"


@pytest.mark.parametrize("node", [HEAD, WORKER], ids=lambda node: node.name)
def test_its_numbers_are_the_engines_own(node: LabNode) -> None:
    cluster.complete_many(chat.endpoint(), 16)
    time.sleep(15)
    said = told(node)
    assert {each["state"] for each in said["nodes"]} == {"ok"}
    for metric, name in (
        ("vllm:num_requests_running", "requests_running"),
        ("vllm:num_requests_waiting", "requests_waiting"),
    ):
        values = [value for of in (HEAD, WORKER) for key, value in metrics(of).items() if key.startswith(f"{metric}{{")]
        assert said["models"][0][name] == sum(values)
    assert said["models"][0]["tokens_out"] > 0 and said["models"][0]["sentence"].endswith("with two engines")
    for each, of in zip(said["nodes"], (HEAD, WORKER), strict=True):
        assert each["memory_bytes"] == metrics(of)["tandem_memory_bytes"]
        assert [rail["carrier"] for rail in each["rails"]] == [1, 1]
    events = asked(node, "events.json", chat.endpoint()["OPENAI_API_KEY"]).json()
    assert events["missing"] == [] and any(event["kind"] == "deploy" for event in events["events"])


def test_it_has_no_right_and_its_death_is_nobody_else_s() -> None:
    pid = on(HEAD, f"systemctl show {UNIT} --property=MainPID --value").strip()
    status = on(HEAD, f"cat /proc/{pid}/status")
    assert "CapBnd:\t0000000000000000" in status and "\nUid:\t0\t" not in status
    on(HEAD, f"systemctl stop {UNIT}")
    try:
        assert asked(HEAD, "", None).status_code == 503
        cluster.complete_many(chat.endpoint(), 2)
    finally:
        on(HEAD, f"systemctl start {UNIT}")


def test_a_second_deploy_changes_nothing_and_a_new_key_is_taken_up() -> None:
    again = deploy(**KNOBS)
    assert (again.code, again.changes) == (0, 0), again.text
    for node in (HEAD, WORKER):
        on(node, "rm /etc/tandem/proxy/secrets/master.key")
    done = deploy(**KNOBS)
    assert done.code == 0, done.text
    assert told(HEAD)["asked_at"] == HEAD.name


def test_without_the_knob_it_is_gone() -> None:
    done = deploy(**KNOBS | {"monitoring": "off"})
    assert done.code == 0, done.text
    for node in (HEAD, WORKER):
        assert on(node, f"systemctl list-unit-files {UNIT}.service -q; true") == ""
        assert asked(node, "", None).status_code == 401
