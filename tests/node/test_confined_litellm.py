"""The real LiteLLM as its container has it: a user without rights, no capability, nothing to write to but /tmp.

The kernel's own parts are set here as Docker sets them; the container itself is looked at in tests/e2e.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from operations.plan.places import PROXY_USER
from tests.node.litellm_proxy import LITELLM, OWNER, Proxy
from tests.node.strangers import LIVENESS, request

pytestmark = [
    pytest.mark.skipif(not LITELLM.exists(), reason="no LiteLLM here: LITELLM= names one"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a user of another"),
]

_RIGHTS = "--clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs"
#: A Python in root's home can be run by nobody else: it is there alone then.
_PYTHON = "mkdir /mnt/p && mount --bind {1} /mnt/p && mount -t tmpfs -o mode=755 tmpfs /root && mkdir -p {1}"
#: {0}: the folder, in which `used` is written to; {1}: where Python is.
_CONFINED = (
    "mount -t tmpfs tmpfs /mnt && case {1} in /root/*) " + _PYTHON + " && mount --move /mnt/p {1};; esac"
    " && mount -t tmpfs -o nosuid,nodev,noexec,size=64m tmpfs /tmp"
    " && mount --bind {0} {0} && mount --bind {0}/used {0}/used"
    " && mount -o remount,bind,ro / && mount -o remount,bind,ro {0} && export HOME=/tmp"
    f' && exec setpriv --reuid {PROXY_USER} --regid {PROXY_USER} {_RIGHTS} "$@"'
)


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    # Not under /tmp, which is another one there.
    folder = Path(tempfile.mkdtemp(dir="/run"))
    folder.chmod(0o755)
    (folder / "used").mkdir()
    os.chown(folder / "used", PROXY_USER, PROXY_USER)
    python = (LITELLM.parent / "python3").resolve().parents[1]
    script = _CONFINED.format(shlex.quote(str(folder)), shlex.quote(str(python)))
    proxy = Proxy(folder, behind=["unshare", "--mount", "sh", "-c", script, "sh"])
    try:
        proxy.wait()
        yield proxy
    finally:
        proxy.stop()
        shutil.rmtree(folder)


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


def test_it_writes_its_counts_and_nothing_else(proxy: Proxy) -> None:
    proxy.chat(OWNER)
    root = Path(f"/proc/{proxy.processes[-1].pid}/root")
    assert [path for path in (root / "tmp").rglob("*") if path.is_file()] == []
    assert {path.name for path in proxy.used.iterdir()} <= {"used.json", "used.lock", "used.part"}
    log = proxy.log.read_text()
    assert not re.search(r"Read-only file system|Permission denied|can't be written", log), log
