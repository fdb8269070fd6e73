"""The real HAProxy with what its container may do, which is nothing: it listens on an address that its node has not,
and what keepalived asks tells whether it serves.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from operations.paths import ADDRESS, PROXY, PROXY_CONFIG, PROXY_RUN, SOCKETS
from tests.node.confined import behind, owned, placed
from tests.node.spaces import Space, wire
from tests.plan.samples import plan
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("haproxy"),
    reason="wants root and haproxy (tests/lab/packages.sh installs it)",
)
WANTED, DEVICE = "10.0.0.50", "enP7s7"
DOUBLE = Path(__file__).parent / "doubles/litellm_double.py"
ASK = f"import urllib.request as r; print(r.urlopen('http://{WANTED}:8000/health/liveliness', timeout=2).status)"


class Door:
    """A node with its proxy, which is bound to loopback and the virtual address, and a client beside it."""

    def __init__(self, folder: Path) -> None:
        self.node, self.client = Space(), Space()
        wire(self.client, "eth0", self.node, DEVICE)
        self.client.address("eth0", "10.0.0.99/24")
        self.node.address(DEVICE, "10.0.0.11/24")
        mine = plan(topology="solo", proxy_bind="loopback", proxy_address=WANTED).head
        config = next(file.content for file in mine.container(PROXY).files if file.path == PROXY_CONFIG)
        run, sockets = folder / "run", folder / "sockets"
        owned(run, sockets)
        (folder / "haproxy.cfg").write_text(config.replace(PROXY_RUN, str(run)).replace(SOCKETS, str(sockets)))
        self.asks = folder / "asks.py"
        asks = next(file.content for file in mine.container(ADDRESS).files if file.path.endswith("/asks.py"))
        self.asks.write_text(asks.replace(SOCKETS, str(sockets)))
        self.asks.chmod(0o755)
        proxy = (*behind(folder, run, sockets), "haproxy", "-db", "-f", str(folder / "haproxy.cfg"))
        self.proxy = subprocess.Popen(self.node.argv(*proxy))
        double = (sys.executable, str(DOUBLE), "a", str(sockets / "litellm-a.sock"), str(sockets / "litellm-a.pulse"))
        self.litellm = subprocess.Popen(self.node.argv(*double), stderr=subprocess.DEVNULL)

    def says_yes(self) -> bool:
        return subprocess.run(self.node.argv(str(self.asks)), check=False).returncode == 0

    def end(self) -> None:
        for each in (self.proxy, self.litellm):
            each.send_signal(signal.SIGCONT)
            each.kill()
            each.wait()
        self.node.close()
        self.client.close()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    with placed(Door, tmp_path) as made:
        yield made


def test_a_proxy_listens_on_an_address_that_comes_later(door: Door) -> None:
    until(door.says_yes, 20)
    assert f"{WANTED}:8000" in door.node.run("ss", "-Hltn")
    door.node.run("ip", "address", "add", f"{WANTED}/32", "dev", DEVICE)

    def is_answered() -> bool:
        # A machine without time for it has the proxy take what is behind it for gone, for a moment.
        with suppress(AssertionError):
            return door.client.run(sys.executable, "-c", ASK) == "200\n"
        return False

    until(is_answered, 20)


def test_the_question_tells_one_that_serves_from_one_that_has_nobody_behind_it_hangs_or_is_gone(door: Door) -> None:
    until(door.says_yes, 20)
    door.litellm.kill()
    until(lambda: not door.says_yes(), 20)
    door.litellm = subprocess.Popen(door.litellm.args, stderr=subprocess.DEVNULL)
    until(door.says_yes, 20)
    door.proxy.send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    assert not door.says_yes() and time.monotonic() - begun < 5
    door.proxy.send_signal(signal.SIGCONT)
    until(door.says_yes, 20)
    door.proxy.kill()
    door.proxy.wait()
    assert not door.says_yes()
