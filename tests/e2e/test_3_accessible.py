"""axe-core looks at the page and at the manual in a real browser: nothing serious may stand in anybody's way.

It needs no booted host; it is here because `make test` has no minute left for it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.manual.test_site import MKDOCS, build
from tests.node.browser import CHROMIUM, Door, faults
from tests.node.page_doubles import KEY, Exporter, Page
from tests.plan.samples import ROOT

pytestmark = [
    *(pytest.mark.lab, pytest.mark.long),
    pytest.mark.skipif(not CHROMIUM, reason="no chromium is here"),
]
LIST = Path(__file__).with_name("axe.txt")
#: It stays from one run to the next; git ignores it.
KEPT = ROOT / ".venv-axe"
GRAVE = ("serious", "critical")


@pytest.fixture(scope="module")
def axe() -> bytes:
    """The script, by its hash."""
    name = "axe_playwright_python-0.1.8-py3-none-any.whl"
    if not (KEPT / name).exists():
        KEPT.mkdir(exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        got = subprocess.run([*pip, "-r", str(LIST), "--dest", str(KEPT)], capture_output=True, text=True, check=False)
        assert got.returncode == 0, f"axe-core can't be had: {got.stderr}"
    return zipfile.ZipFile(KEPT / name).read("axe_playwright_python/axe.min.js")


def grave(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in found if each["impact"] in GRAVE]


@pytest.fixture(scope="module")
def page(axe: bytes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One node is well, one has a rail down, one says nothing."""
    folder, exporters = tmp_path_factory.mktemp("page"), [Exporter(), Exporter()]
    exporters[1].changes = {
        'tandem_source_up{source="engine"}': "0",
        'tandem_rail_carrier{device="enP2p1s0f0np0"}': "0",
    }
    urls = {f"spark-{number}": f"http://127.0.0.1:{each.server_port}" for number, each in enumerate(exporters, 1)}
    served = Page(folder, urls)
    door = Door(served.url, KEY, axe)
    # Two looks, so that there are charts and rates.
    time.sleep(12)
    yield door
    door.end()
    served.end()
    for each in exporters:
        each.end()


@pytest.mark.parametrize("width", [1100, 390], ids=["desk", "phone"])
def test_the_page_stands_in_nobody_s_way(page: Door, width: int, tmp_path: Path) -> None:
    found = faults(page, tmp_path, "tandem/", width)
    assert grave(found) == []


@pytest.fixture(scope="module")
def manual(axe: bytes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    if not MKDOCS.exists():
        pytest.skip("no mkdocs here: `make manual` installs it")
    site = tmp_path_factory.mktemp("manual") / "site"
    done = build(site)
    assert done.returncode == 0, done.stderr

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    door = Door(f"http://127.0.0.1:{server.server_port}", script=axe)
    yield door
    door.end()
    server.shutdown()


@pytest.mark.parametrize("name", ["index.html", "page.html", "knobs.html"])
def test_the_manual_stands_in_nobody_s_way(manual: Door, name: str, tmp_path: Path) -> None:
    assert grave(faults(manual, tmp_path, name)) == []


def test_what_would_stand_in_the_way_is_found(axe: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text("<title>x</title><h1>x</h1><img src=x.png><p style='color:#ddd'>pale</p>" * 12)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    door = Door(f"http://127.0.0.1:{server.server_port}", script=axe)
    try:
        found = {each["id"] for each in grave(faults(door, tmp_path, "bad.html"))}
    finally:
        door.end()
        server.shutdown()
    assert {"image-alt", "color-contrast"} <= found
