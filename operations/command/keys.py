"""Keys of clients."""

from __future__ import annotations

from typing import Annotated

import typer

from operations.command import running
from operations.command.at import At
from operations.command.groups import KEYS, AsJson, verb
from operations.plan.services.proxy_keys import named, wish

Name = Annotated[str, typer.Argument(help="Whose it is.")]


@verb(KEYS, "tandem key alice", "tandem key alice --expires 30d --requests 4", name="key")
def make(
    at: At,
    name: Name,
    expires: Annotated[str, typer.Option(help="`30d`, or a day: 2027-01-31.")] = "",
    requests: Annotated[str, typer.Option(help="Requests at once.")] = "",
    tokens: Annotated[str, typer.Option(help="Tokens a minute.")] = "",
) -> int:
    """Make a key for a client; it is printed once."""
    wish(name, expires, requests, tokens)
    words = {"NAME": name, "EXPIRES": expires, "REQUESTS": requests, "TOKENS": tokens}
    return running.query(at, "key", more=words)


@verb(KEYS, "tandem keys", "tandem keys --json", name="keys")
def told(at: At, as_json: AsJson = False) -> int:
    """Keys of clients: what they may, when they end, what they have used."""
    return running.query(at, "keys", json=as_json)


@verb(KEYS, "tandem key-revoke alice", name="key-revoke")
def revoke(at: At, name: Name) -> int:
    """The key of a client opens nothing any more."""
    named(name)
    return running.query(at, "key_revoke", more={"NAME": name})
