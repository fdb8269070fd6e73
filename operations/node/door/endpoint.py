"""Where clients find the service: the proxy's URL and key."""

from __future__ import annotations

from pathlib import Path

from operations.node.door import certificate
from operations.node.unit import services
from operations.paths import PAGE, PROXY, PROXY_KEY
from operations.wire.unit import Endpoint


def main() -> Endpoint:
    """`url` (with /v1), `address` (the URL at the virtual one, or empty), `page` (its URL, or empty), `key`, `model`,
    and `authority`: the certificate that clients have to know, or empty. An empty `url`: no proxy runs.
    """
    state = services.main([PROXY])["units"][PROXY]
    page = services.unit_states([PAGE]).get(PAGE, {}).get("ActiveState") == "active"
    key = Path(PROXY_KEY)
    if not state.get("url") or not key.exists():
        return {"url": ""}
    shared = f"{state['address']}/v1" if state.get("address") else ""
    authority = certificate.authority() if state["url"].startswith("https:") else ""
    return {
        "url": f"{state['url']}/v1",
        "address": shared,
        "page": f"{state.get('address') or state['url']}/tandem/" if page else "",
        "key": key.read_text().strip(),
        "model": state["model"],
        "authority": authority,
    }
