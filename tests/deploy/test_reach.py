"""Why a node can't be connected to: pyinfra's real ssh connector, against real ends of connections."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest
from paramiko.common import AUTH_SUCCESSFUL

from operations.runner.reach import CONNECT_S
from tests.plan.samples import ROOT

#: Seconds for a whole deploy on a busy machine. Without bounds of Tandem's own the kernel alone takes 130 for one node.
GIVEN_UP_S = 90
ALIVE = '("@fake/spark-1", {"fake_delay": 0, "fake_delay_jitter": 0})'


class Refusing(paramiko.ServerInterface):
    """An ssh server that lets nobody in."""

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"


class SlowServer(paramiko.ServerInterface):
    """An ssh server that lets everybody in, after `waits` seconds before its first line and before its yes."""

    def __init__(self, folder: Path) -> None:
        self.key = paramiko.RSAKey.generate(2048)
        self.waits = {"hello": 0.0, "login": 0.0}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        known = f"[127.0.0.1]:{self.port} {self.key.get_name()} {self.key.get_base64()}\n"
        (folder / "known").write_text(known)
        paramiko.RSAKey.generate(2048).write_private_key_file(str(folder / "key"))

    def serve(self) -> None:
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return
        time.sleep(self.waits["hello"])
        transport = paramiko.Transport(connection)
        transport.add_server_key(self.key)
        transport.start_server(threading.Event(), self)

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        time.sleep(self.waits["login"])
        self.waits["login"] = 0.0
        return AUTH_SUCCESSFUL


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[SlowServer]:
    server = SlowServer(tmp_path)
    threading.Thread(target=server.serve, daemon=True).start()
    yield server
    server.listener.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[int]:
    """The port of an ssh server that lets nobody in; its key is in `known`, another one in `changed`."""
    key = paramiko.RSAKey.generate(2048)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    for name, shown in (("known", key), ("changed", paramiko.RSAKey.generate(2048))):
        (tmp_path / name).write_text(f"[127.0.0.1]:{port} {shown.get_name()} {shown.get_base64()}\n")
    (tmp_path / "unknown").write_text("")
    paramiko.RSAKey.generate(2048).write_private_key_file(str(tmp_path / "key"))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(key)
            try:
                transport.start_server(threading.Event(), Refusing())
            except (EOFError, paramiko.SSHException):
                pass

    threading.Thread(target=serve, daemon=True).start()
    yield port
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


#: Code for an inventory: a node has to be found within a second.
QUICK_S = 1.0
QUICK = f"from operations.runner import reach\n\nreach.CONNECT_S = {QUICK_S}\n"


def run(tmp_path: Path, *nodes: str, shell: str = "exec", code: str = "") -> tuple[int, str, float]:
    """Exit code, words and seconds of a run that does nothing but connect to these nodes. `code` ends its inventory."""
    (tmp_path / "nodes.py").write_text(f"nodes = [{', '.join(nodes)}]\n{code}")
    (tmp_path / "nothing.py").write_text("")
    pyinfra = f"{shell} {sys.executable} -m pyinfra -y {tmp_path}/nodes.py {tmp_path}/nothing.py"
    environment = {**os.environ, "PYINFRA_PROGRESS": "off", "HOME": str(tmp_path), "SSH_AUTH_SOCK": ""}
    start = time.monotonic()
    done = subprocess.run(
        ["sh", "-c", pyinfra], capture_output=True, text=True, cwd=ROOT, env=environment, check=False, timeout=60
    )
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert "Traceback" not in text
    return done.returncode, text, time.monotonic() - start


def told(text: str, name: str) -> str:
    """The one line about a node."""
    (line,) = [line.strip() for line in text.splitlines() if line.strip().startswith(name)]
    return line


def node(tmp_path: Path, port: int, keys: str) -> str:
    data = f'"ssh_hostname": "127.0.0.1", "ssh_port": {port}, "ssh_user": "spark", "ssh_key": "{tmp_path}/key"'
    keys = f'"ssh_known_hosts_file": "{tmp_path}/{keys}", "ssh_strict_host_key_checking": "yes"'
    return f'("spark-2", {{{data}, {keys}}})'


@pytest.mark.parametrize(
    ("keys", "said", "remedy"),
    [
        ("known", "refuses the login spark@127.0.0.1", "ssh-copy-id spark@127.0.0.1"),
        ("unknown", "has a host key that is not known here", "ssh-keyscan -p {port} 127.0.0.1 >> {keys}"),
        ("changed", "shows another host key than the known one", "ssh-keygen -f {keys} -R '[127.0.0.1]:{port}'"),
    ],
)
def test_who_shuts_the_door_is_told_with_the_key_to_it(
    tmp_path: Path, server: int, keys: str, said: str, remedy: str
) -> None:
    code, text, _ = run(tmp_path, ALIVE, node(tmp_path, server, keys))
    assert code == 0
    line = told(text, "spark-2")
    assert said in line and remedy.format(port=server, keys=tmp_path / keys) in line
    # And nothing else of it: no warnings of the connector's, which say the same in four lines.
    assert text.count("host key") + text.count("ssh-keygen") + text.count("HOST IDENT") == line.count(
        "host key"
    ) + line.count("ssh-keygen")


def test_a_name_that_nobody_has_and_a_port_that_nobody_listens_on(tmp_path: Path) -> None:
    closed = '("spark-3", {"ssh_hostname": "127.0.0.1", "ssh_port": 1})'
    code, text, took = run(tmp_path, ALIVE, '("spark-2.invalid", {})', closed)
    assert code == 0 and took < GIVEN_UP_S
    assert "the name spark-2.invalid is not known): switch it on; if it is on, write its address" in text
    assert "does not answer (connection refused): it is on, without an ssh server" in told(text, "spark-3")


def test_who_takes_the_connection_and_is_silent_is_not_waited_for_for_long(tmp_path: Path) -> None:
    mute = socket.create_server(("127.0.0.1", 0))
    data = f'{{"ssh_hostname": "127.0.0.1", "ssh_port": {mute.getsockname()[1]}}}'
    code, text, took = run(tmp_path, ALIVE, f'("spark-2", {data})')
    mute.close()
    # Longer than one that is off.
    assert code == 0 and CONNECT_S < took < GIVEN_UP_S
    assert "takes the connection and then says nothing: try again in a minute" in told(text, "spark-2")


@pytest.mark.parametrize("stage", ["hello", "login"])
def test_a_node_that_takes_its_time_is_waited_for(tmp_path: Path, slow: SlowServer, stage: str) -> None:
    """Under load each step of a login takes seconds: longer than a node that is off is waited for."""
    slow.waits[stage] = QUICK_S + 3
    code, text, took = run(tmp_path, node(tmp_path, slow.port, "known"), code=QUICK)
    assert code == 0, text
    assert "spark-2" not in text or "takes the connection" not in text
    assert "Connected" in text and took > QUICK_S + 3


#: A network with three neighbours: .2 is off, .3 swallows everything, .4 is a name server that does.
NETWORK = """\
#!/bin/sh
set -e
ip link set lo up
ip link add cable0 type veth peer name cable1
ip link set cable1 up
ip addr add 198.18.0.1/24 dev cable0
ip link set cable0 up
for n in 3 4; do ip neigh add 198.18.0.$n lladdr 02:00:00:00:00:0$n dev cable0; done
mount --bind {resolv} /etc/resolv.conf
exec "$@"
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root for a network of its own")
def test_nodes_that_are_off_cost_seconds(tmp_path: Path) -> None:
    (tmp_path / "resolv.conf").write_text("nameserver 198.18.0.4\n")
    (tmp_path / "enter").write_text(NETWORK.replace("{resolv}", str(tmp_path / "resolv.conf")))
    (tmp_path / "enter").chmod(0o755)
    nodes = [f'("spark-{n}", {{"ssh_hostname": "198.18.0.{n}"}})' for n in (2, 3)]
    code, text, took = run(
        tmp_path, ALIVE, *nodes, '("spark-4.lan", {})', shell=f"exec unshare --net --mount {tmp_path}/enter"
    )
    assert code == 0, text
    assert "does not answer (no route to host): switch it on" in told(text, "spark-2")
    assert "does not answer (timed out): switch it on" in told(text, "spark-3")
    assert "spark-4.lan does not answer" in text
    assert took < GIVEN_UP_S
