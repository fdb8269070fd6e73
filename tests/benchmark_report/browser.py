"""A page as a real browser shows it, without a network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="apt install chromium")
#: Blink's own numbers for what a page is told of the owner's preference.
DARK, LIGHT = "0", "1"
#: A page within a page can be narrower than the browser's own least window, and tells what it is like in there.
_FRAME = """<!doctype html><iframe id="f" src="{page}" style="width:{width}px;height:900px;border:0"></iframe>
<pre id="told"></pre>
<script>document.getElementById("f").onload = function () {{
  var inside = this.contentDocument, root = inside.documentElement;
  var style = this.contentWindow.getComputedStyle(inside.body);
  var svg = inside.querySelector("figure svg"), text = inside.querySelector("figure svg text");
  document.getElementById("told").textContent = JSON.stringify({{
    wide: root.scrollWidth, seen: root.clientWidth, page: style.backgroundColor, text: style.color,
    plots: inside.querySelectorAll("figure svg").length, plot: svg ? svg.getBoundingClientRect().width : 0,
    plot_text: text ? this.contentWindow.getComputedStyle(text).fill : "",
    answer: inside.getElementById("answer").textContent,
    verdict: inside.querySelectorAll("#verdict tbody tr").length,
    below: inside.getElementById("verdict").getBoundingClientRect().bottom,
    tables: inside.querySelectorAll("table").length, say: inside.getElementById("to-do").textContent,
    loads: this.contentWindow.performance.getEntriesByType("resource").map(function (each) {{ return each.name; }})
  }});
}};</script>"""


def _chromium(profile: Path, scheme: str, *arguments: str) -> str:
    argv = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        f"--user-data-dir={profile}", "--allow-file-access-from-files", "--hide-scrollbars",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--blink-settings=preferredColorScheme={scheme}", *arguments,
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout


def looked_at(page: Path, folder: Path, width: int, scheme: str = LIGHT) -> dict[str, Any]:
    """What the page is like at a width in CSS pixels."""
    frame = folder / f"frame-{width}-{scheme}.html"
    frame.write_text(_FRAME.format(page=page.as_uri(), width=width))
    dom = _chromium(folder / "profile", scheme, "--virtual-time-budget=20000", "--dump-dom", frame.as_uri())
    told = re.search(r'<pre id="told">(.*?)</pre>', dom, re.DOTALL)
    assert told and told[1], dom[-2000:]
    found: dict[str, Any] = json.loads(unescape(told[1]))
    return found


def picture(page: Path, folder: Path, scheme: str = LIGHT, size: str = "1000,1600") -> Path:
    """A PNG of its upper part."""
    file = folder / f"picture-{scheme}.png"
    _chromium(folder / "profile", scheme, f"--window-size={size}", f"--screenshot={file}", page.as_uri())
    return file
