"""Where clients find the service: the proxy's URL and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from operations.node import secrets, services


def main() -> dict[str, Any]:
    """`url` (with /v1), `key` and `model`; empty where no proxy runs."""
    state = services.main(["tandem-proxy"])["units"]["tandem-proxy"]
    key = Path(secrets.PATHS[1])
    if not state.get("url") or not key.exists():
        return {"url": ""}
    return {"url": f"{state['url']}/v1", "key": key.read_text().strip(), "model": state["model"]}
