"""Recipes that an owner may begin with: four purposes, each with one recipe."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pick:
    """`key`: what `tandem init --for` takes; `title` and `why`: for people; `load`: advice's word for it."""

    key: str
    title: str
    recipe: str
    why: str
    load: str = "chat"


PICKS = (
    Pick(
        "chat",
        "chat for a family",
        "nemotron-3-super-nvfp4-auto",
        "a large model that public runs prove; two Sparks make it faster",
    ),
    Pick(
        "coding",
        "coding agents",
        "gpt-oss-120b-mxfp4",
        "the fastest of the large ones; tools, and prompts that are cached",
        "coding agent",
    ),
    Pick(
        "one-spark",
        "one Spark",
        "qwen3.6-35b-a3b-nvfp4-mtp",
        "the fastest on one, leaves half of its memory; text and pictures",
    ),
    Pick(
        "most-users",
        "most users",
        "nemotron-3-nano-nvfp4-w4a4",
        "64 at once on each Spark, the most tokens a second of all",
    ),
)
