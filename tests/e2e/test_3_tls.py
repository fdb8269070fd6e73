"""TLS on the lab: an authority on the head, clients that know it, a second deploy that changes nothing, and back."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
import requests

from tests.lab import chat, cluster
from tests.lab.cluster import HEAD, WORKER, deploy, on

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("lab")]

WANTED = {"topology": "replicas", "tls": "self", "proxy_bind": "management"}


@pytest.fixture(scope="module")
def at() -> Iterator[dict[str, str]]:
    done = deploy(**WANTED)
    assert done.code == 0, done.text
    assert done.text.count("the proxy here gets a certificate") == 2
    told = chat.endpoint()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REQUESTS_CA_BUNDLE", told["SSL_CERT_FILE"])
        yield told


def _stranger() -> requests.Session:
    """A client that knows the authorities of the system alone."""
    found = requests.Session()
    found.trust_env = False
    return found


def test_clients_that_know_the_authority_are_answered_by_each_node(at: dict[str, str]) -> None:
    assert at["OPENAI_BASE_URL"].startswith("https://")
    for node in (HEAD, WORKER):
        assert cluster.complete({**at, "OPENAI_BASE_URL": f"https://{node.address}:8000/v1"}) == 8
    with pytest.raises(requests.exceptions.SSLError):
        _stranger().get(f"{at['OPENAI_BASE_URL']}/models", timeout=10)
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(f"http://{HEAD.address}:8000/v1/models", timeout=10)


def test_a_second_deploy_changes_nothing_and_no_key_is_another_node_s(at: dict[str, str]) -> None:
    again = deploy(**WANTED)
    assert (again.code, again.changes) == (0, 0), again.text
    keys = [on(node, "sha256sum /etc/tandem/tls/proxy.key") for node in (HEAD, WORKER)]
    assert keys[0] != keys[1]
    assert "No such file" in on(WORKER, "ls /etc/tandem/ca 2>&1", check=False)
    for node in (HEAD, WORKER):
        assert on(node, "stat --format '%a %u' /etc/tandem/tls/proxy.pem").split()[0] == "600"
    status = subprocess.run(
        ["make", "-s", "status", f"INVENTORY={cluster.INVENTORY}"], cwd=cluster.ROOT, capture_output=True, text=True
    )
    assert status.returncode == 0, status.stdout


def test_one_that_is_lost_is_made_anew_by_the_same_authority_and_loaded_while_haproxy_runs(at: dict[str, str]) -> None:
    before = on(HEAD, "docker inspect --format '{{.Id}}' tandem-proxy")
    on(HEAD, "rm /etc/tandem/tls/proxy.pem")
    done = deploy(**WANTED)
    assert done.code == 0, done.text
    assert cluster.complete(at) == 8
    assert on(HEAD, "docker inspect --format '{{.Id}}' tandem-proxy") == before


def test_and_back(at: dict[str, str]) -> None:
    done = deploy(topology="replicas", proxy_bind="management")
    assert done.code == 0, done.text
    assert 'set tls = "self"' in done.text
    assert cluster.complete(chat.endpoint()) == 8
