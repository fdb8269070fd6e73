"""The real HAProxy, configured as a deploy renders it, before the real page: alive, dead, and with no LiteLLM left."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from operations.paths import PAGE_SOCKET, PROXY, PROXY_CONFIG, PROXY_RUN, SOCKETS
from tests.node.page_doubles import KEY, Exporter, Page
from tests.plan.samples import plan
from tests.support.ports import free_port
from tests.support.waiting import until_it_listens


def asked(url: str, key: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_door_sends_it_what_is_its_own_and_says_plainly_where_it_is_dead(tmp_path: Path) -> None:
    exporter = Exporter()
    urls = {f"spark-{number}": f"http://127.0.0.1:{exporter.server_port}" for number in (1, 2)}
    (tmp_path / "page").mkdir()
    page = Page(tmp_path / "page", urls)
    port = free_port()
    mine = plan(topology="solo", monitoring="metrics", proxy_port=port).head.container(PROXY)
    assert mine
    config = next(file.content for file in mine.files if file.path == PROXY_CONFIG)
    (tmp_path / "run").mkdir()
    config = config.replace(PROXY_RUN, str(tmp_path / "run")).replace(SOCKETS, str(tmp_path / "run"))
    (tmp_path / "haproxy.cfg").write_text(config.replace(PAGE_SOCKET, page.socket))
    haproxy = subprocess.Popen(["haproxy", "-W", "-db", "-f", str(tmp_path / "haproxy.cfg")])
    url = f"http://127.0.0.1:{port}"
    try:
        until_it_listens(port)
        assert asked(f"{url}/tandem/") == (401, "")
        # No LiteLLM is up here: the service is down, and the page says how it is.
        assert asked(f"{url}/tandem/state.json", KEY)[0] == 200
        assert "<title>Tandem</title>" in asked(f"{url}/tandem", KEY)[1]
        for path in ("/tandemx", "/v1/tandem/", "/%74andem/", "//tandem/", "/Tandem/"):
            status, text = asked(f"{url}{path}", KEY)
            assert status == 503 and "the service starts, or is down" in text, path
        page.end()
        status, text = asked(f"{url}/tandem/", KEY)
        assert status == 503 and "the page of Tandem does not run here" in text
    finally:
        haproxy.terminate()
        haproxy.wait()
        page.end()
        exporter.end()


def test_where_nobody_wants_it_the_path_is_litellm_s() -> None:
    mine = plan(topology="solo").head.container(PROXY)
    assert mine
    with pytest.raises(ValueError):
        next(file.content for file in mine.files if file.path == PROXY_CONFIG).index("backend page")
