"""What a deploy does for the proxies' certificates."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

from operations.paths import PROXY
from operations.plan.services import tls
from tests.deploy.fake import NAMES, NO_CERTIFICATE, Outcome, as_planned, deploy, planned
from tests.plan.samples import ROOT
from tests.plan.test_tls import pair

HEAD = NAMES[0]
ANSWERS = {"door.certificate": {"asks": "a question", "chain": "an answer", "hash": "new"}}


def run(folder: Path, wanted: str, here: dict[str, Any], **more: Any) -> Outcome:
    """A solo with TLS, whose head says this of its certificate."""
    states = as_planned(topology="solo", tls=wanted, proxy_bind="management")
    states[0]["certificate"] = NO_CERTIFICATE | here
    data = ["--data", "topology=solo", "--data", f"tls={wanted}", "--data", "proxy_bind=management"]
    return deploy(folder, states, "-y", *data, programs=ANSWERS, **more)


def valid() -> dict[str, Any]:
    """What the head says when all is well."""
    mine = planned(topology="solo", tls="self", proxy_bind="management")
    names = [*tls.names(mine.knobs, mine.head.node), "10.0.0.11"]
    ends = time.time() + 90 * 86400
    return {"hash": "h", "names": names, "ends": ends, "authority": "ours", "own": "ours", "owners": names[:1]}


def reloads(outcome: Outcome) -> bool:
    return any(command == f"systemctl reload {PROXY}.service" for _, command in outcome.commands)


def test_a_proxy_without_one_gets_one(tmp_path: Path) -> None:
    outcome = run(tmp_path, "self", {"newer": True})
    assert outcome.code == 0, outcome.text
    assert "the proxy here gets a certificate: it has none" in outcome.text
    assert reloads(outcome)


def test_one_that_is_valid_stays_and_one_that_haproxy_has_not_read_is_loaded(tmp_path: Path) -> None:
    outcome = run(tmp_path, "self", valid())
    assert outcome.code == 0, outcome.text
    assert "gets a certificate" not in outcome.text and not reloads(outcome)
    assert reloads(run(tmp_path, "self", valid() | {"newer": True}))


def test_an_owner_s_own_goes_to_the_node_and_its_key_is_nowhere_in_what_is_said(tmp_path: Path) -> None:
    certificate, key = pair(tmp_path, days=3650)
    wanted = f"files:{certificate},{key}"
    # The addresses of this plan's nodes are not in it.
    refused = run(tmp_path, wanted, {})
    assert refused.code != 0 and "has not the name" in " ".join(refused.text.split()) and refused.commands == []
    assert "Traceback" not in refused.text
    certificate, key = pair(tmp_path, [], days=3650, hosts=["llm.example"])
    outcome = run(tmp_path, f"files:{certificate},{key}", {"newer": True})
    assert outcome.code == 0 and reloads(outcome), outcome.text
    assert key.read_text().splitlines()[1] not in outcome.text
    whole = hashlib.sha256((key.read_text() + certificate.read_text()).encode()).hexdigest()
    assert not reloads(run(tmp_path, f"files:{certificate},{key}", {"hash": whole}))


def test_without_openssl_it_is_refused(tmp_path: Path) -> None:
    outcome = run(tmp_path, "self", {}, openssl=False)
    assert outcome.code != 0 and "needs openssl" in outcome.text and outcome.commands == []


def test_endpoint_gives_clients_the_authority(tmp_path: Path) -> None:
    states = as_planned(topology="solo")
    said = {"url": "https://10.0.0.11:8000/v1", "key": "k", "model": "m", "authority": "a certificate\n"}
    answers = {HEAD: {"door.endpoint": said}, NAMES[1]: {"door.endpoint": {"url": ""}}}
    written = ROOT / "tandem-ca.crt"
    try:
        outcome = deploy(tmp_path, states, "-y", file="operations/verbs/endpoint.py", by_node=answers)
        assert f"SSL_CERT_FILE={written}" in outcome.json
        assert written.read_text() == "a certificate\n"
    finally:
        written.unlink(missing_ok=True)
