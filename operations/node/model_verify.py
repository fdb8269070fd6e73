"""The model on this node, for `make verify`."""

from __future__ import annotations

import time
from typing import Any

from operations.node import model_files
from operations.node.look import expand


def main(store: str, folder: str, revision: str, deep: bool = False) -> dict[str, Any]:
    """model_files' state, and how long it took; `deep` hashes every file, also those that were proven before."""
    start = time.monotonic()
    place = expand(store)
    state = model_files.main(place, folder, revision, prove=deep, again=deep)
    return {**state, "path": f"{place}/{folder}/snapshots/{revision}", "seconds": time.monotonic() - start}
