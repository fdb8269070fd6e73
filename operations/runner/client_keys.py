"""Keys of clients on all nodes with a proxy: the head's, which a deploy puts where others lie."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.node.door import keys as node_keys
from operations.runner.remote import hand
from operations.wire.keys import KeysTold

#: The hash of a file whose last key was revoked.
_NONE = hashlib.sha256(b"{}\n").hexdigest()


def source(known: Mapping[str, str]) -> str:
    """Whose are taken, by the hashes of the nodes' files, the head first; empty: there are none.

    A head that has no file has been replaced. One whose last key was revoked has a file, and its word is that there are
    none.
    """
    return next((name for name, found in known.items() if found), "")


def are(known: Mapping[str, str], name: str) -> bool:
    """Whether a node has the keys that all are to have; no file is as good as one without a key."""
    wanted, here = known.get(source(known), ""), known[name]
    return wanted == here or {wanted, here} <= {"", _NONE}


def take_over(whose: str, state: State, host: Host) -> bool:
    """The keys of another node become this one's; again where one was made or revoked meanwhile, whose verb may have
    been here before. Raises RuntimeError with what is wrong.
    """
    where = state.inventory.get_host(whose)
    text = _asked(where, tell=True)["text"]
    while True:
        _asked(host, stdin=text, take=True)
        now = _asked(where, tell=True)["text"]
        if now == text:
            host.log(f"the keys of clients here were not {whose}'s, and are now")
            return True
        text = now


def _asked(host: Host, stdin: str = "", tell: bool = False, take: bool = False) -> KeysTold:
    answer = hand(host, stdin, node_keys.main, tell=tell, take=take, anyway=True, where=host.name)
    if "problem" in answer:
        raise RuntimeError(answer["problem"])
    return answer
