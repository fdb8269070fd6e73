"""What the proxy of this node has read, which may be older than what lies here."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from operations.node.commands import docker_inspect, read
from operations.node.door import drained
from operations.paths import ADMIN, LITELLM, PAGE, PROXY_KEY, PROXY_LOADED
from operations.wire import Json
from operations.wire.look import ProxyState

LOADED = Path(PROXY_LOADED)
KEY = Path(PROXY_KEY)
#: The owner's key as systemd gave it to the page at its start.
PAGES_KEY = Path(f"/run/credentials/{PAGE}.service/key")


def main() -> ProxyState:
    """`loaded`: the hash of the configuration that HAProxy has loaded last, empty: none; `engines`: of the one whose
    engines each LiteLLM has; `older`: those LiteLLM that were started before the owner's key was written; `drained`:
    those that HAProxy was told to send nothing more; `page_is_older`: whether the page has another key than that one.
    """
    words = read(LOADED).split()
    written = KEY.stat().st_mtime if KEY.exists() else 0.0
    containers = {c["Name"].lstrip("/"): c for c in docker_inspect("container", *LITELLM)}
    pulses = {name: (c["Config"]["Labels"] or {}).get("tandem.pulse", "") for name, c in containers.items()}
    return {
        "loaded": words[0] if words else "",
        "engines": {name: drained.configured(pulse) if pulse else "" for name, pulse in pulses.items()},
        "drained": [f"tandem-{server.partition('/')[2]}" for server in drained.kept_out(ADMIN)],
        "page_is_older": PAGES_KEY.exists() and read(PAGES_KEY) != read(KEY),
        "older": sorted(name for name, c in containers.items() if _started(c) < written),
    }


def _started(container: Json) -> float:
    """Seconds since 1970; Docker writes nine digits behind the point, Python reads six."""
    text = str(container["State"]["StartedAt"])[:26].rstrip("Z")
    return datetime.fromisoformat(f"{text}+00:00").timestamp()
