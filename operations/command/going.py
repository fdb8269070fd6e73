"""Verbs of several steps: an upgrade, talking to the model, the page, the removal of everything."""

from __future__ import annotations

import json
import os
import sys
import webbrowser
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import typer

from bench.ssh import Tunnel, login
from operations.command import origin, running, talking
from operations.command.at import At
from operations.command.version import version
from operations.plan.config.refusal import Finding, Refusal

#: The line that ends a dry run of which nothing comes.
_NOTHING = "nothing would change"
#: Things by node, each with its bytes.
Listed = dict[str, list[dict[str, Any]]]
#: Where only the node itself is asked.
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def upgrade(at: At, *, is_asking: bool) -> int:
    """Says what this Tandem would change on the nodes, asks, and does it."""
    for remark in origin.check():
        print(f"note: {remark}", file=sys.stderr)
    print(f"tandem {version()}: what it would change is looked at", flush=True)
    code, last = running.last_line(running.argv(at, "deploy.py", "--dry", *at.data_words))
    if code:
        return code
    print(last)
    if last == _NOTHING:
        return 0
    print(f"`tandem plan{at.as_given}` shows it file by file")
    if is_asking and not (_is_there("upgrade") and typer.confirm("Do it?", default=False)):
        print("nothing was changed")
        return 0
    return running.deploy(at, "-y")


def chat(at: At, model: str, question: str) -> int:
    """Talks to the model; one `question`, or as long as somebody asks."""
    code, way = _way(at)
    if code:
        return code
    endpoint = way["endpoint"]
    with ExitStack() as stack:
        url = _from_here(stack, way, endpoint["url"])
        return talking.talk(url, endpoint["key"], model or endpoint["model"], question, endpoint.get("authority", ""))


def open_page(at: At) -> int:
    """Says where the page is, and opens it; where only the node itself is asked, as long as nobody ends it."""
    code, way = _way(at)
    if code:
        return code
    endpoint = way["endpoint"]
    if not endpoint.get("page"):
        remedy = 'monitoring = "metrics" in group_data/all.py, and `tandem apply`, brings it'
        print(f"tandem: there is no page: monitoring is off; {remedy}", file=sys.stderr)
        return 1
    with ExitStack() as stack:
        url = _from_here(stack, way, endpoint["page"])
        print(f"{url}\nany name, and the key as the password: {endpoint['key']}", flush=True)
        # On others a browser in the terminal would take it.
        if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
            webbrowser.open(url)
        if url != endpoint["page"]:
            print("it is open through ssh until Ctrl-C", flush=True)
            _forever()
    return 0


def remove_all(at: At, *, is_asking: bool) -> int:
    """Lists all that Tandem has put on the nodes, asks for a word, and removes it."""
    code, text = running.answer(at, "everything")
    if code:
        return code
    found: Listed = json.loads(text)
    show(found)
    total = sum(thing["bytes"] for things in found.values() for thing in things)
    print(f"together {gigabytes(total)}; the engines and proxies stop, and nobody is served any more")
    if is_asking and not agrees("down"):
        return 0
    return running.change(at, "down") or running.query(at, "everything", remove=True)


def show(found: Listed) -> None:
    """What would be removed."""
    for name, things in found.items():
        print(name)
        for thing in things:
            print(f"  {gigabytes(thing['bytes']):>9}  {thing['what']}")


def agrees(verb: str) -> bool:
    """Whether the owner wants what was shown to be removed; raises Refusal where nobody is there to be asked."""
    asked = "Type `remove` to remove all of it"
    if _is_there(verb) and typer.prompt(asked, default="", show_default=False) == "remove":
        return True
    print("nothing was removed")
    return False


def _is_there(verb: str) -> bool:
    """Whether somebody can be asked; raises Refusal where nobody is."""
    if not sys.stdin.isatty():
        raise Refusal(Finding(verb, "nobody is there to be asked", "`--yes` does it without asking"))
    return True


def gigabytes(size: float) -> str:
    """`12.3 GB`; what is less than a tenth is a dash."""
    return f"{size / 1e9:.1f} GB" if size >= 5e7 else "-"


def _way(at: At) -> tuple[int, Mapping[str, Any]]:
    code, text = running.answer(at, "way")
    return (code, {}) if code else (0, json.loads(text))


def _from_here(stack: ExitStack, way: Mapping[str, Any], url: str) -> str:
    """The URL as this machine reaches it: through ssh where the proxy listens on the node's loopback alone."""
    if urlsplit(url).hostname not in _LOOPBACK or not way["ssh"]:
        return url
    return stack.enter_context(Tunnel(login(way["ssh"]), [url])).url(url)


def _forever() -> None:
    import threading

    threading.Event().wait()
