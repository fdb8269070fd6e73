"""What a node says of a model on demand (files/ondemand)."""

from __future__ import annotations

from typing import TypedDict


class Told(TypedDict):
    """`state`: loaded, waits (it loads, or will when another one has), no, or failed (its load; the next one waits).
    `after_s`: seconds after which to ask again; `says`: in words, for clients.
    """

    state: str
    after_s: int
    says: str


class OnDemandRow(TypedDict):
    """One model in /run/tandem/ondemand/says.json, for people. `state`: as tenants.py has it."""

    state: str
    says: str
