"""Unloads what Ollama has in memory: it keeps a model for hours, and on unified memory that is the engine's.

Runs on the node before each start of an engine that needs the GPU. No Ollama is the ordinary case, and no fault.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Any

URL = "http://127.0.0.1:11434"


def main(url: str = URL) -> list[str]:
    """Names of the models that were unloaded."""
    try:
        loaded = [str(each["name"]) for each in ask(f"{url}/api/ps", None).get("models", [])]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    for name in loaded:
        print(f"Ollama has {name} in memory: unloading it", file=sys.stderr)
        try:
            ask(f"{url}/api/generate", {"model": name, "keep_alive": 0})
        except (OSError, ValueError) as error:
            print(f"Ollama does not unload {name}: {error}; `ollama stop {name}`", file=sys.stderr)
    return loaded


def ask(url: str, body: dict[str, Any] | None) -> dict[str, Any]:
    """The JSON that Ollama answers."""
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


if __name__ == "__main__":
    main()
