"""`greet.py OWN PEER ...`: says nothing to each peer, by VRRP's protocol, before keepalived listens.

A firewall that lets answers in, and nothing else, takes what a peer says for an answer from then on. Who only listens
has said nothing yet: behind such a firewall it would hear nobody, think itself alone, and take the address from the one
that has it.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress

_VRRP = 112


def main(own: str, *peers: str) -> None:
    """Whoever can't be told now is not there, and takes nothing."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_RAW, _VRRP) as word:
        word.bind((own, 0))
        for peer in peers:
            with suppress(OSError):
                word.sendto(b"", (peer, 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
