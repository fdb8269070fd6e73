"""Nobody on a node but the proxy's own programs listens where HAProxy asks, or asks where they listen: another user
tries, with the real HAProxy, the real LiteLLM and the real page.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from operations.paths import PROXY, PROXY_USER
from operations.plan.plan import Plan
from tests.node.confined import IS_ROOT, place
from tests.node.litellm_proxy import CHAT, LITELLM, OWNER, body
from tests.node.litellm_proxy import Proxy as RealLiteLLM
from tests.node.page_doubles import KEY as PAGE_KEY
from tests.node.page_doubles import Exporter, Page
from tests.node.relay import Relay
from tests.node.strangers import request
from tests.node.test_haproxy import Proxy
from tests.plan.samples import plan
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(not IS_ROOT, reason="only root is another user for a while")
NOBODY = 65534
#: Another user can't get to one that lies in root's home.
PYTHON = "/usr/bin/python3"
#: Takes every place of a socket and the ports that a LiteLLM once had, says to all who ask that it runs, and tells what
#: it was told.
SQUAT = """
import json, select, socket, sys, time
files, ports, had = json.loads(sys.argv[1]), json.loads(sys.argv[2]), []
def said(why): print(why, flush=True)
for place in files:
    for act in ("bind", "connect"):
        one = socket.socket(socket.AF_UNIX)
        try: getattr(one, act)(place)
        except OSError as error: said(f"{act} {place.rpartition('/')[2]}: {type(error).__name__}"); continue
        said(f"{act} {place.rpartition('/')[2]}: done")
        if act == "bind": one.listen(); had.append(one)
for port in ports: had.append(socket.create_server(("127.0.0.1", port)))
said("ready")
until = time.time() + 5
while time.time() < until:
    for one in select.select(had, [], [], 0.2)[0]:
        guest, _ = one.accept()
        guest.settimeout(1)
        try: said("was told " + repr(guest.recv(9999))); guest.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n0 x")
        except OSError: pass
        guest.close()
"""


def become(user: int) -> list[str]:
    """What stands before a command line that runs as a user, with no right and no other group."""
    bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--clear-groups"]
    return [*bare, "--reuid", str(user), "--regid", str(user)]


def as_nobody(*argv: str) -> subprocess.Popen[str]:
    become = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    return subprocess.Popen([*become, PYTHON, "-c", *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_who_takes_the_places_of_a_litellm_that_is_away_is_sent_nothing(tmp_path: Path) -> None:
    with place(tmp_path) as folder:
        proxy = Proxy(folder)
        try:
            for name, double in proxy.doubles.items():
                double.kill()
                double.wait()
                for kind in ("sock", "pulse"):
                    (proxy.sockets / f"litellm-{name}.{kind}").unlink()
            until(lambda: proxy.state("a") == "DOWN" == proxy.state("b"), 10)
            places = [str(proxy.sockets / name) for name in ("litellm-a.sock", "litellm-a.pulse", "proxy.sock")]
            squatter = as_nobody(SQUAT, json.dumps(places), json.dumps([8010, 8011, 8012, 8013]))
            assert squatter.stdout
            said = [squatter.stdout.readline().strip() for _ in range(7)]
            assert said[-1] == "ready", said
            for _ in range(4):
                time.sleep(0.7)
                with pytest.raises(urllib.error.HTTPError, match="503"):
                    proxy.stream(1)
            rest, _ = squatter.communicate()
            assert rest == "" and {line.rpartition(": ")[2] for line in said[:-1]} == {"PermissionError"}, (said, rest)
        finally:
            proxy.end()


def test_what_root_s_programs_may_ask_without_any_right_nobody_else_may(tmp_path: Path) -> None:
    """The canary, the exporter and keepalived are root without capabilities."""
    ask = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print('there')"
    with place(tmp_path) as folder:
        proxy = Proxy(folder)
        try:
            asked = str(proxy.sockets / "proxy.sock")
            bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--clear-groups"]
            for user, group, there in ((0, 0, True), (PROXY_USER, PROXY_USER, True), (NOBODY, NOBODY, False)):
                become = [*bare, "--reuid", str(user), "--regid", str(group)]
                done = subprocess.run([*become, PYTHON, "-c", ask, asked], capture_output=True, text=True, check=False)
                assert (done.stdout == "there\n") == there, (user, done.stderr)
        finally:
            proxy.end()


def test_the_page_answers_the_proxy_and_nobody_else(tmp_path: Path) -> None:
    exporter = Exporter()
    page = Page(tmp_path, {f"spark-{number}": f"http://127.0.0.1:{exporter.server_port}" for number in (1, 2)})
    ask = (
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.settimeout(5); s.connect(sys.argv[1])\n"
        "said = b'GET /tandem/ HTTP/1.0\\r\\nAuthorization: Bearer ' + sys.argv[2].encode() + b'\\r\\n\\r\\n'\n"
        "try: s.sendall(said)\n"
        "except OSError: pass\n"
        "try: print(s.recv(12).decode())\n"
        "except OSError: print()"
    )
    os.chmod(Path(page.socket).parent, 0o755)
    try:
        for user, said in ((PROXY_USER, "HTTP/1.0 200"), (NOBODY, "")):
            argv = [*become(user), PYTHON, "-c", ask, page.socket, PAGE_KEY]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            assert done.stdout.strip() == said, (user, done.stderr)
    finally:
        page.end()
        exporter.end()


def listens_at(pid: int) -> list[str]:
    """Local addresses of TCP on which a process listens, as the kernel writes them."""
    own = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it may be closed in between
            own.add(os.readlink(each))
    rows = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()
    ]
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]


@pytest.mark.skipif(not LITELLM.exists(), reason="wants the proxy's environment (make venv-proxy)")
def test_litellm_has_no_port_and_knows_who_asks_through_the_proxy(tmp_path: Path) -> None:
    with place(tmp_path) as folder:
        real = RealLiteLLM(folder, serves="serve.py", routes=False)
        try:
            real.url = Relay(f"{real.used}/listens").url
            real.wait()
            assert listens_at(real.processes[-1].pid) == []
            assert (real.used / "listens").is_socket() and real.chat(OWNER)[0] == 200
            request(real.url, "POST", CHAT, OWNER, body(), headers={"X-Forwarded-For": "10.9.8.7"})
            until(lambda: "from 10.9.8.7" in real.log.read_text(), 10)
        finally:
            real.stop()


@pytest.mark.parametrize("topology", ["solo", "cluster", "replicas"])
def test_no_server_of_haproxy_s_is_at_a_port(topology: str) -> None:
    of: Plan = plan(topology=topology, monitoring="metrics")
    for node in of.serving:
        config = next(file.content for file in node.container(PROXY).files if file.path.endswith("haproxy.cfg"))
        servers = re.findall(r"^ +server (\S+) (\S+)", config, re.MULTILINE)
        assert {name for name, _ in servers} == {"litellm-a", "litellm-b", "page"}
        assert all(where.startswith("unix@/run/tandem/") for _, where in servers)
