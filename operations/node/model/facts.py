"""What a model's own configuration says, and which commit the Hub calls `main`."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path

from operations.wire import Json
from operations.wire.model import Layout

#: Names under which configurations say how many layers for multi-token prediction there are.
_MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "mtp_num_layers")
#: Where a configuration of several models has the language model's; what is beside it (a tower for pictures) has heads
#: and layers of its own.
_TEXT = ("text_config", "llm_config", "language_config")


def has_mtp(snapshot: Path) -> bool | None:
    """Whether the checkpoint has layers for multi-token prediction; None: its configuration is not here."""
    config = _config(snapshot)
    if config is None:
        return None
    places = [config, *(each for each in config.values() if isinstance(each, dict))]
    return any(int(place.get(name) or 0) > 0 for place in places for name in _MTP)


def layout(places: Iterable[Path]) -> Layout:
    """What the ranks of a cluster are cut by: `heads` and `layers` (0: it is not said), and `architectures`. Read
    from the first of these folders that has a configuration; empty where none has.
    """
    config = next((found for found in map(_config, places) if found is not None), None)
    if config is None:
        return {}
    text: Json = next((config[name] for name in _TEXT if isinstance(config.get(name), dict)), {})
    counts = {"heads": "num_attention_heads", "layers": "num_hidden_layers"}
    said = {key: text.get(name, config.get(name)) for key, name in counts.items()}
    found = {key: count if isinstance(count, int) and count > 0 else 0 for key, count in said.items()}
    named = config.get("architectures")
    return {
        "heads": found["heads"],
        "layers": found["layers"],
        "architectures": [str(each) for each in named] if isinstance(named, list) else [],
    }


def _config(snapshot: Path) -> Json | None:
    try:
        config = json.loads((snapshot / "config.json").read_text())
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) else None


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
