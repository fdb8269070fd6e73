"""`greet.py ADDRESSES PEERS`: says nothing to each peer, by VRRP's protocol, before keepalived listens.

A firewall that lets answers in, and nothing else, takes what a peer says for an answer from then on. Who only listens
has said nothing yet: behind such a firewall it would hear nobody, think itself alone, and take the address from the one
that has it.

ADDRESSES: a file of this node's, one a line; PEERS: keepalived's of the others (files/office/office.py).
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from pathlib import Path

_VRRP = 112


def main(addresses: str, peers: str) -> None:
    """A node that can't be told now is not there, and takes nothing."""
    said = Path(peers).read_text().partition("unicast_peer")[2]
    others = [word for word in said.split() if word.count(".") == 3]
    for own in Path(addresses).read_text().split():
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_RAW, _VRRP) as word:
            word.bind((own, 0))
            for peer in others:
                with suppress(OSError):
                    word.sendto(b"", (peer, 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
