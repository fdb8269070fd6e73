"""What engines keep below /root/.cache for their next start, and what a cluster's ranks may each have of it.

A rank that finds what the others lack is ahead of them. That does no harm where they only come later. They wait for
ever where what it finds lets it skip a step that all take together. A node that was replaced is such a case: it is
cold, and the others are warm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from operations.plan.recipes.lint.subject import parse

#: Where a container has what its ranks must have alike: it goes with the container, so that all begin with nothing.
ONE_START = "/tmp/tandem-one-start"


@dataclass(frozen=True)
class Cache:
    """One folder below /root/.cache.

    `ranks`: `own`, each rank may have another, or none; `alike`, they hang unless all find the same. `key`: by what the
    engine tells entries of other models, flags and GPUs apart; the image is told apart by the volume. `source`: where
    that was read. `since`, `before`: the releases that it is so in, from and up to; empty: no bound. `variable`: what
    says where it lies. `switch`: the variable without which it is not kept at all. One that is to be alike has either.
    """

    path: str
    ranks: Literal["own", "alike"]
    key: str
    source: str
    since: str = ""
    before: str = ""
    variable: str = ""
    switch: str = ""

    def is_of(self, version: str) -> bool:
        """Whether a release has it so; one that is not known may."""
        if not version:
            return True
        mine = parse(version)
        return not (self.since and mine < parse(self.since)) and not (self.before and mine >= parse(self.before))


#: Of libraries that any engine here has; each writes a file whole and then renames it.
LIBRARIES = (
    Cache(
        path="flashinfer",
        ranks="own",
        key="FlashInfer's version, the GPU's architecture, and each kernel's parameters",
        source="flashinfer/jit/env.py of 0.7.0, FLASHINFER_WORKSPACE_DIR: a lock for each kernel, no collective",
    ),
    Cache(
        path="huggingface",
        ranks="own",
        key="the model's repository and revision",
        source="a model's own code is copied there, from the same store on every node",
    ),
)


def alike(caches: Iterable[Cache], version: str) -> list[Cache]:
    """Those that the ranks of a cluster must have alike, in a release; empty `version`: it is not known."""
    return [each for each in caches if each.ranks == "alike" and each.is_of(version)]


def for_one_start(caches: Iterable[Cache], version: str) -> dict[str, str]:
    """Variables by which a rank keeps them no longer than its container: all ranks of each start begin with nothing."""
    movable = (each for each in alike(caches, version) if each.variable)
    return {each.variable: f"{ONE_START}/{each.path.rpartition('/')[2]}" for each in movable}
