"""What a model's own configuration says, and which commit the Hub calls `main`."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

#: Names under which configurations say how many layers for multi-token prediction there are.
_MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "mtp_num_layers")


def has_mtp(snapshot: Path) -> bool | None:
    """Whether the checkpoint has layers for multi-token prediction; None: its configuration is not here."""
    try:
        config: dict[str, Any] = json.loads((snapshot / "config.json").read_text())
    except (OSError, ValueError):
        return None
    places = [config, *(each for each in config.values() if isinstance(each, dict))]
    return any(int(place.get(name) or 0) > 0 for place in places for name in _MTP)


def main_commit(store: Path, folder: str, endpoint: str, repo: str, token_file: str) -> str:
    """The commit that the cache, else the Hub, calls main; empty: neither says."""
    try:
        return (store / folder / "refs/main").read_text().strip()
    except OSError:
        pass
    request = urllib.request.Request(f"{endpoint}/api/models/{repo}/revision/main")
    try:
        if token_file:
            request.add_header("Authorization", f"Bearer {Path(token_file).read_text().strip()}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return str(json.load(answer).get("sha", ""))
    except (OSError, ValueError, urllib.error.URLError):
        return ""
