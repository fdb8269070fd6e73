"""Keys of clients on the lab: made and revoked by the verbs under load, and each route of LiteLLM's table asked."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest

from tests.chaos import client
from tests.chaos.scene import Scene
from tests.e2e import cluster
from tests.e2e.cluster import HEAD, deploy, on
from tests.lab import chat
from tests.node import strangers
from tests.node.strangers import in_openai_form, request

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("lab")]

ROUTES = Path(__file__).parents[1] / "node/doubles/litellm_routes.py"


def verb(name: str, **given: str) -> subprocess.CompletedProcess[str]:
    """`make key NAME=...` and its like."""
    argv = ["make", "-s", name, f"INVENTORY={cluster.INVENTORY}", *(f"{key}={value}" for key, value in given.items())]
    return subprocess.run(argv, capture_output=True, text=True, cwd=cluster.ROOT, check=False)


@pytest.fixture(scope="module")
def url() -> str:
    """Of the proxy, without /v1."""
    deployed = deploy(topology="solo")
    assert deployed.code == 0, deployed.text
    return chat.endpoint()["OPENAI_BASE_URL"].removesuffix("/v1")


@pytest.fixture
def alice(url: str) -> str:
    """A key of that name."""
    verb("key-revoke", NAME="alice")
    made = verb("key", NAME="alice", EXPIRES="1d")
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def test_of_all_routes_one_answers_without_a_key(url: str, alice: str) -> None:
    program = base64.b64encode(ROUTES.read_bytes()).decode()
    said = on(HEAD, f"echo {program} | base64 -d | docker exec --interactive tandem-litellm-a python3 -")
    routes = [(method, path) for method, path in json.loads(said.splitlines()[-1])]
    assert len(routes) > 500
    found = strangers.walk(url, routes)
    assert {route for route, status in found.items() if status not in (401, 404)} == {strangers.LIVENESS}
    found = strangers.walk(url, routes, alice)
    open_to = {path.removeprefix("/v1") for (_, path), status in found.items() if status not in (401, 404)}
    served = {"/chat/completions", "/completions", "/embeddings", "/rerank", "/v2/rerank", "/models"}
    assert open_to == {*served, strangers.LIVENESS[1]}


def test_keys_come_and_go_under_load_and_nothing_of_them_is_on_the_node(url: str, alice: str) -> None:
    scene = Scene("solo", "ray").look()
    assert request(url, "GET", "/v1/models", alice)[0] == 200
    with client.load(scene.at, scene.expected) as seen:
        assert verb("key", NAME="bob", REQUESTS="2").returncode == 0
        assert verb("key-revoke", NAME="alice").returncode == 0
        status, _, text = request(url, "GET", "/v1/models", alice)
        assert status == 401 and in_openai_form(text)["code"] == "invalid_api_key"
    assert str(seen) == f"{seen.sent} sent, {seen.sent} answered"
    again = verb("key", NAME="bob")
    assert again.returncode != 0 and "there is a key named `bob`" in again.stderr
    listed = verb("keys").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["name", "owner", "bob"]
    assert int(listed[1].split()[-1]) > 0
    for where in ("journalctl --no-pager", "grep -r . /etc/tandem /var/lib/tandem/keys", "ps axww -o args"):
        assert alice not in on(HEAD, where)
    assert "tandem: owner: POST /v1/chat/completions: 200" in on(
        HEAD, "journalctl --no-pager -u tandem-litellm-a -u tandem-litellm-b"
    )
    assert verb("key-revoke", NAME="bob").returncode == 0
