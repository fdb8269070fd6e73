"""Chromium before the page: who gives it the key, what it shows, pictures, and what axe-core holds against a page."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.serving import Quiet, Server

CHROMIUM = shutil.which("chromium") or ""
#: A page within one: it can be narrower than Chromium's least window, and another script may look into it.
_FRAME = """<!doctype html><html lang="en"><title>A frame</title><body style="margin:0">
<iframe id="f" title="the page" src="{path}" width="{width}" height="{height}" style="border:0"></iframe>
<pre id="told"></pre>"""
#: The page has asked for what it shows before axe looks.
_AXE = """<script>
const frame = document.getElementById("f"), told = document.getElementById("told");
frame.onload = () => {
  const inside = frame.contentDocument, axe = inside.createElement("script");
  axe.src = "/axe.js";
  axe.onload = () => setTimeout(async () => {
    try {
      const found = await frame.contentWindow.axe.run(inside, {resultTypes: ["violations", "passes"]});
      told.textContent = JSON.stringify({
        passes: found.passes.length,
        violations: found.violations.map(({id, impact, nodes}) => ({
          id, impact, nodes: nodes.map((node) => `${node.target.join(" ")}: ${node.failureSummary}`),
        })),
      });
    } catch (error) {
      told.textContent = JSON.stringify({failed: String(error)});
    }
  }, 4000);
  inside.head.append(axe);
};</script>"""


class Door(Server):
    """Between the browser and what serves at `url`: gives the owner's key, which a command line can't type into a
    dialogue. `/frame/WIDTH/HEIGHT/...` has a path in a frame; with `script`, `/axe/WIDTH/HEIGHT/...` looks at it as
    well.
    """

    def __init__(self, url: str, key: str = "", script: bytes = b"") -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}

        class Handler(Quiet):
            def do_GET(self) -> None:
                kind, *size = self.path.split("/", 4)[1:]
                if kind in ("frame", "axe") and len(size) == 3:
                    frame = _FRAME.format(width=size[0], height=size[1], path=f"/{size[2]}")
                    return self._say(200, (frame + (_AXE if kind == "axe" else "")).encode(), "text/html", None)
                if self.path == "/axe.js":
                    return self._say(200, script, "text/javascript", None)
                return self._passed_on()

            def _passed_on(self) -> None:
                try:
                    request = urllib.request.Request(f"{url}{self.path}", headers=headers)
                    with urllib.request.urlopen(request, timeout=10) as answer:
                        # The frame is this test's own.
                        policy = answer.headers.get("Content-Security-Policy", "")
                        policy = policy.replace("ancestors 'none'", "ancestors 'self'")
                        self._say(200, answer.read(), answer.headers["Content-Type"], policy)
                except OSError:
                    self._say(502, b"", "text/plain", None)

            def _say(self, status: int, body: bytes, kind: str, policy: str | None) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                if policy:
                    self.send_header("Content-Security-Policy", policy)
                self.end_headers()
                self.wfile.write(body)

        super().__init__(Handler)


def browse(folder: Path, *flags: str, seconds: int = 4) -> str:
    """What Chromium prints of a page that had some seconds of its own time."""
    argv = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"]
    argv += [f"--user-data-dir={folder / 'profile'}", f"--virtual-time-budget={seconds * 1000}", *flags]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def text_of(dom: str) -> str:
    """What is read on a page, without markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", dom)).split())


def values(dom: str) -> list[tuple[str, str]]:
    """(label, what is shown) of the page's figures, in their order."""
    return [
        (html.unescape(label), html.unescape(value))
        for label, value in re.findall(r'data-of="([^"]*)"[^>]*>([^<]*)', dom)
    ]


def pixels(file: Path) -> dict[str, Any]:
    """Size of a picture, and how light its corner is."""
    import matplotlib.image

    image = matplotlib.image.imread(file)
    return {"height": image.shape[0], "width": image.shape[1], "light": float(image[:20, :5, :3].mean())}


def faults(door: Door, folder: Path, path: str, width: int = 1100, height: int = 3000) -> list[dict[str, Any]]:
    """What axe-core finds on a page, by its own words; raises AssertionError where it has not looked."""
    dom = browse(folder, "--dump-dom", f"{door.url}/axe/{width}/{height}/{path}", seconds=30)
    told = re.search(r'<pre id="told">(.*?)</pre>', dom, re.DOTALL)
    assert told and told[1], dom[-2000:]
    found = json.loads(html.unescape(told[1]))
    assert found.get("passes", 0) > 5, found
    violations: list[dict[str, Any]] = found["violations"]
    return violations
