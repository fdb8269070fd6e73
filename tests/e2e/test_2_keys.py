"""Keys of clients on the lab: made and revoked by the verbs under load and on all nodes, and each route of LiteLLM's
table asked.
"""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from operations.paths import CLIENT_KEYS
from tests.chaos import client
from tests.chaos.scene import Scene
from tests.lab import chat, cluster
from tests.lab.cluster import HEAD, WORKER, deploy, on
from tests.lab.node import power_off, power_on, wait_until_up
from tests.node import strangers
from tests.node.strangers import in_openai_form, request

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("lab")]

#: Seconds in which the proxy of a node that has booted answers.
BOOT_S = 180
#: HAProxy answers them itself, whatever the method, and says nothing but that a LiteLLM is up.
OF_HAPROXY = {(method, strangers.LIVENESS[1]) for method in ("GET", "HEAD", "OPTIONS")}
ROUTES = Path(__file__).parents[1] / "node/doubles/litellm_routes.py"


def verb(name: str, **given: str) -> subprocess.CompletedProcess[str]:
    """`tandem key ...` and its like."""
    argv = ["make", "-s", name, f"INVENTORY={cluster.INVENTORY}", *(f"{key}={value}" for key, value in given.items())]
    return subprocess.run(argv, capture_output=True, text=True, cwd=cluster.ROOT, check=False)


@pytest.fixture(scope="module")
def url() -> str:
    """Of the head's proxy, without /v1."""
    deployed = deploy(topology="replicas")
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
    assert {route for route, status in found.items() if status not in (401, 404)} <= OF_HAPROXY
    found = strangers.walk(url, routes, alice)
    open_to = {path.removeprefix("/v1") for (_, path), status in found.items() if status not in (401, 404)}
    served = {"/chat/completions", "/completions", "/embeddings", "/rerank", "/v2/rerank", "/models"}
    served |= {"/messages", "/messages/count_tokens", "/responses", "/audio/speech", "/audio/transcriptions"}
    # LiteLLM's table need not have what the door answers itself.
    assert open_to == {*served, strangers.LIVENESS[1]} & {path.removeprefix("/v1") for _, path in routes}
    assert all(request(url, "POST", f"/v1{path}", alice)[0] == 400 for path in ("/messages", "/responses", "/score"))


def test_keys_come_and_go_under_load_and_nothing_of_them_is_on_the_node(url: str, alice: str) -> None:
    scene = Scene.named("replicas/balanced").look()
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


@pytest.fixture(scope="module")
def urls(url: str) -> list[str]:
    """Of the proxies of both nodes, without /v1, the head's first."""
    return [f"http://{where.address}:8000" for where in (HEAD, WORKER)]


def statuses(urls: list[str], key: str) -> list[int]:
    """What each proxy says to a client who asks for the models, however long that is not up yet."""

    def status(url: str) -> int:
        end = time.monotonic() + BOOT_S
        while True:
            with suppress(OSError, http.client.HTTPException):
                if (said := request(url, "GET", "/v1/models", key)[0]) < 500:
                    return said
            assert time.monotonic() < end, f"{url} says nothing in {BOOT_S} s"
            time.sleep(1)

    return [status(url) for url in urls]


def files() -> list[str]:
    """Hash and mode of each node's file."""
    return [on(where, f"sha256sum < {CLIENT_KEYS}; stat -c %a {CLIENT_KEYS}") for where in (HEAD, WORKER)]


def test_a_key_opens_all_proxies_and_is_counted_and_revoked_on_all(urls: list[str]) -> None:
    verb("key-revoke", NAME="alice")
    made = verb("key", NAME="alice")
    assert made.returncode == 0 and "has not heard of it" not in made.stderr, made.stderr
    key = made.stdout.strip()
    assert statuses(urls, key) == [200, 200]
    first, second = files()
    assert first == second and first.split()[-1] == "600"
    at = chat.endpoint()
    answers: list[Any] = [chat.ask(f"{url}/v1", key, at["OPENAI_MODEL"], "Hello") for url in urls]
    # What keys have used is written half a second later.
    time.sleep(1)
    row = next(line.split() for line in verb("keys").stdout.splitlines() if line.startswith("alice"))
    assert int(row[-1]) == sum(answer["usage"]["total_tokens"] for answer in answers)
    assert verb("key-revoke", NAME="alice").returncode == 0
    assert statuses(urls, key) == [401, 401]
    again = deploy(topology="replicas")
    assert again.code == 0 and again.changes == 0, again.text


@pytest.mark.long
def test_a_node_that_is_away_has_the_head_s_keys_after_the_next_deploy(urls: list[str]) -> None:
    for name in ("alice", "bob"):
        verb("key-revoke", NAME=name)
    alice = verb("key", NAME="alice").stdout.strip()
    power_off(WORKER)
    made = verb("key", NAME="bob")
    assert made.returncode == 0 and f"{WORKER.name} has not heard of it" in made.stderr
    bob = made.stdout.strip()
    revoked = verb("key-revoke", NAME="alice")
    assert revoked.returncode != 0 and "its proxy takes the key of `alice` until the next" in revoked.stderr
    assert statuses(urls[:1], alice) == [401] and statuses(urls[:1], bob) == [200]
    assert WORKER.name in verb("keys").stdout.splitlines()[-1]
    power_on(WORKER)
    wait_until_up(WORKER)
    assert f"{WORKER.name} has other keys than the head" in verb("keys").stdout
    assert deploy(topology="replicas").code == 0
    assert statuses(urls, alice) == [401, 401] and statuses(urls, bob) == [200, 200]
    assert verb("key-revoke", NAME="bob").returncode == 0
    assert statuses(urls, bob) == [401, 401]


@pytest.mark.long
def test_a_node_that_was_away_hears_of_a_revoked_key_by_the_same_verb_again(urls: list[str]) -> None:
    alice = verb("key", NAME="alice").stdout.strip()
    power_off(WORKER)
    assert verb("key-revoke", NAME="alice").returncode != 0
    power_on(WORKER)
    wait_until_up(WORKER)
    assert statuses(urls[1:], alice) == [200]
    again = verb("key-revoke", NAME="alice")
    assert again.returncode == 0, again.stderr
    assert statuses(urls, alice) == [401, 401]
    unknown = verb("key-revoke", NAME="alice")
    assert unknown.returncode != 0 and "there is no key named `alice`" in unknown.stderr
