"""The models on this node, for `tandem verify`."""

from __future__ import annotations

import time
from collections.abc import Sequence

from operations.node.login import expand
from operations.node.model import proof
from operations.wire.model import ModelVerified, Place, Verified


def main(store: str, models: Sequence[Place], deep: bool = False) -> Verified:
    """`models`: of each what proof.py says, `path`, and how long it took; `deep` hashes every file, also those that
    were proven before.
    """
    return {"models": [_verified(expand(store), model, deep) for model in models]}


def _verified(store: str, model: Place, deep: bool) -> ModelVerified:
    start = time.monotonic()
    state = proof.main(store, **model, prove=deep, again=deep)
    path = f"{store}/{model['folder']}/snapshots/{model['revision']}"
    return {**state, "path": path, "seconds": time.monotonic() - start}
