"""Known holes: what files/holes has beside the advisories."""

from __future__ import annotations

from typing import TypedDict

from operations.wire import Json


class About(TypedDict):
    """about.json: when the list was renewed (a date), from what, and which packages were looked up at all."""

    date: str
    sources: list[str]
    how: str
    packages: list[str]


class Judgement(TypedDict, total=False):
    """Who can reach a hole, and `when`: conditions by their names (operations/plan/advisories/reach.py)."""

    who: str
    when: Json


class ReachTable(TypedDict):
    """reach.json: patterns of models that take text alone, of those that take more, and holes by their ids."""

    text_only: list[str]
    media: list[str]
    judged: dict[str, Judgement]
