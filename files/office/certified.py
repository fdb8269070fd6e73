"""The certificate of this node's proxy, for the addresses that it has now; on the head those of the others too.

The head signs for keys that a deploy has given a certificate, and for the names that the plan has for their nodes; what
it is told over the fabric are addresses, and none that another node has. So whoever speaks there in another's name gets
what is of no use without the key, and a node takes only what is for its own key and addresses.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import authority
import heard

TLS, AUTHORITY = Path("/etc/tandem/tls"), Path("/etc/tandem/ca")
#: Written whenever HAProxy has read its files.
LOADED = Path("/run/tandem/proxy.loaded")
#: Whose HAProxy is (operations/paths.py).
USER = 65530


class Certified:
    """`names`: of the node `name` beside its addresses, none: another has made its certificate; `signs`: on the head
    those of the others, by their nodes.
    """

    def __init__(self, name: str, names: Sequence[str], signs: Mapping[str, Sequence[str]], user: int = USER) -> None:
        self.name, self.names, self.signs, self.user = name, names, signs, user
        self.pem, self.key = TLS / "proxy.pem", TLS / "proxy.key"
        #: The question to the head; empty: none is needed.
        self.asks = ""
        self._seen: tuple[list[str], float] | None = None
        self._refused = dict[str, str]()

    def see(self, own: list[str]) -> None:
        """Ask for another one where this one is not for all of these addresses; on the head it is made at once."""
        # The first is a deploy's to give.
        if not self.names or not self.pem.exists() or not self.key.exists():
            return
        seen = own, self.pem.stat().st_mtime
        if seen == self._seen:
            return
        self._seen, self.asks = seen, ""
        text = self.pem.read_text()
        here = authority.certificates(text)
        # An owner's own came with its key.
        if not text.startswith(self.key.read_text()) or not here or set(own) <= {*authority.described(here[0])[0]}:
            return
        try:
            self.asks = authority.request(self.key, self.user)
        except (RuntimeError, OSError) as error:
            print(f"tandem: no certificate can be asked for: {error}", file=sys.stderr, flush=True)
            return
        if self.name in self.signs and (chain := self.sign(self.name, own, self.asks)):
            self.take(chain, own)

    def is_new(self) -> bool:
        """Whether HAProxy has yet to read what is here."""
        if not self.names or not self.pem.exists() or not LOADED.exists():
            return False
        return self.pem.stat().st_mtime > LOADED.stat().st_mtime

    def sign(self, name: str, own: Sequence[str], asks: str, others: Collection[str] = ()) -> str:
        """The chain for a node with these addresses; empty: the key is not known to be its, or one is no address, or
        of `others`: those of the other nodes.
        """
        clean = heard.addresses(own)
        if bad := [each for each in own if each not in clean or each in others]:
            self._refuse(name, f"{bad[0][:60]!r} is no address, or another node's")
            return ""
        try:
            # The first of its names is what the authority has written down.
            if name not in self.signs or authority.owner(AUTHORITY, asks) != self.signs[name][0]:
                return ""
            return authority.signed(AUTHORITY, asks, [*self.signs[name], *clean])
        except (RuntimeError, OSError) as error:
            self._refuse(name, str(error))
            return ""

    def _refuse(self, name: str, why: str) -> None:
        """Say it once: a node asks again every few seconds."""
        if self._refused.get(name) != why:
            self._refused[name] = why
            print(f"tandem: no certificate for {name}: {why}", file=sys.stderr, flush=True)

    def take(self, chain: str, own: Sequence[str]) -> None:
        """A chain becomes this node's, where it is for its key and these addresses, and of the authority that clients
        know.
        """
        here, first = authority.certificates(self.pem.read_text()), authority.certificates(chain)[:1]
        if not here or not first or not set(own) <= {*authority.described(first[0])[0]}:
            return
        if authority.fits(chain, self.key, here[-1]):
            authority.write(self.pem, self.key.read_text() + chain, self.user)
            self.asks = ""
            print(f"tandem: the proxy has a certificate for {', '.join(own)}", file=sys.stderr, flush=True)
