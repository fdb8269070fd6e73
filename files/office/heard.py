"""What other nodes say, before it is believed. It goes into files that HAProxy, keepalived and openssl read: so nothing
but addresses comes out of here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any

#: Addresses that a node may have in the office; more are let be.
MOST = 16


def addresses(said: object, rails: Sequence[str] = ()) -> list[str]:
    """The addresses in a list, as Python writes them. What is none, has a zone (which may be any text), or lies in a
    subnet of the rails is left out.
    """
    found = []
    for each in said if isinstance(said, list) else []:
        try:
            address = ip_address(each if isinstance(each, str) and "%" not in each else "")
        except ValueError:
            continue
        if not any(address in ip_network(rail) for rail in rails):
            found.append(str(address))
    return found[:MOST]


def by_name(said: object) -> dict[str, list[str]]:
    """Addresses by the names of their nodes; those of which none is left are not there."""
    clean = {str(name): addresses(own) for name, own in said.items()} if isinstance(said, dict) else {}
    return {name: own for name, own in clean.items() if own}


def word(data: bytes, source: tuple[str, int], others: Mapping[str, str], port: int) -> tuple[str, dict[str, Any]]:
    """Which node has said a datagram, and what; no name: nobody of ours. The fabric's port is held by that node's
    tandem-office: any other port may be anybody's there, and its text is not even parsed.
    """
    names = [name for name, address in others.items() if (address, port) == source]
    try:
        said = json.loads(data) if names else None
    # Brackets in brackets.
    except (ValueError, RecursionError):
        return "", {}
    return (names[0], said) if isinstance(said, dict) and said.get("name") == names[0] else ("", {})
