"""A prefix cache that never hits: an owner pays for it, and for each conversation's whole history at each turn."""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.config.kind import Kind
from operations.plan.doctor.symptom import REMARK, Seen, Symptom, found
from operations.plan.engines import ENGINES

#: Names of the engines' counters, the newest of each first, without `_total`.
COUNTERS = {
    ours: tuple(name for runs in ENGINES.values() for name in runs.COUNTERS.get(f"prefix_{ours}", ()))
    for ours in ("asked", "found")
}
#: Tokens of prompts behind which a conversation would have come back: a hit is a whole block, of up to 3,584 tokens.
ENOUGH = 20_000
NEVER_HITS = Kind(
    "prefix-cache-never-hits",
    "the prefix cache of the engine at {url} has found none of {asked:,} tokens",
    "each turn of a conversation computes all of it again; fine only if no two prompts begin alike, or none is longer "
    "than a block (the engine's log: Setting attention block size)",
    "send the same long prompt twice: if it still finds nothing, remove enable-prefix-caching, or take another release "
    "(vLLM #54504)",
)


def judge(seen: Seen) -> Iterator[Symptom]:
    """Engines that were asked for much and found nothing (vLLM #54504 on hybrids, #51198 on a GB10)."""
    for node, engines in seen.topic(lambda look: look.get("prefixes")):
        for each in engines:
            if each["asked"] >= ENOUGH and not each["found"]:
                yield found(NEVER_HITS, REMARK, node, url=each["url"], asked=each["asked"])
