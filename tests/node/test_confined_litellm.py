"""The real LiteLLM as its container has it: a user without rights, no capability, nothing to write to but /tmp."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from operations.paths import PROXY_USER
from tests.node.confined import IS_ROOT
from tests.node.litellm_proxy import LITELLM, OWNER, Proxy
from tests.node.strangers import LIVENESS, request

pytestmark = [
    pytest.mark.skipif(not LITELLM.exists(), reason="no LiteLLM here: LITELLM= names one"),
    pytest.mark.skipif(not IS_ROOT, reason="only root makes a user of another"),
]


@pytest.fixture
def proxy(whole_litellm: Proxy) -> Proxy:
    return whole_litellm


def status(proxy: Proxy) -> dict[str, str]:
    """Of LiteLLM's process, as the kernel has it."""
    text = Path(f"/proc/{proxy.processes[-1].pid}/status").read_text()
    return dict(re.findall(r"^(\w+):\s+(.*)$", text, re.MULTILINE))


def test_it_answers_without_root_and_without_a_capability(proxy: Proxy) -> None:
    said = status(proxy)
    assert said["Uid"].split() == [str(PROXY_USER)] * 4 and said["NoNewPrivs"] == "1"
    assert {int(said[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")} == {0}
    assert request(proxy.url, *LIVENESS)[0] == 200
    assert proxy.chat(OWNER)[0] == 200
    assert proxy.chat(OWNER, stream=True)[0] == 200
    assert proxy.chat("sk-wrong")[0] == 401


def test_it_writes_its_counts_and_what_both_know_and_nothing_else(proxy: Proxy) -> None:
    proxy.chat(OWNER)
    root = Path(f"/proc/{proxy.processes[-1].pid}/root")
    # What is needed of a clone below /tmp is root's.
    assert [path for path in (root / "tmp").rglob("*") if path.lstat().st_uid == PROXY_USER and path.is_file()] == []
    assert {path.name for path in proxy.used.iterdir()} <= {"used.json", "used.lock", "used.part", "listens", "pulse"}
    shared = {path.name: path.stat() for path in proxy.shared.iterdir()}
    assert sorted(name.rpartition(".")[2] for name in shared) == ["counts", "incidents", "marks"]
    assert {(each.st_uid, each.st_mode & 0o777) for each in shared.values()} == {(PROXY_USER, 0o600)}
    log = proxy.log.read_text()
    assert not re.search(r"Read-only file system|Permission denied|can't be written", log), log
