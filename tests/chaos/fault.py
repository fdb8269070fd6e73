"""What a row of the matrix is made of, and words that several rows share."""

from __future__ import annotations

from dataclasses import dataclass

from tests.chaos.acts import Act
from tests.lab import cluster, model

ALL = ("replicas", "cluster/ray", "cluster/mp", "solo")
#: Some rows once more: with the routing that is the default (the others name simple-shuffle); where the rails hang on a
#: switch; on Debian 13 with NetworkManager and Docker's containerd store.
BALANCED = ("replicas/balanced",)
SWITCH = ("replicas/switch", "cluster/mp/switch")
OTHER_KIND = ("replicas/NetworkManager",)
#: With llama.cpp in the place of vLLM.
LLAMA = ("replicas/llama.cpp", "solo/llama.cpp")
#: As is shipped, with a virtual address, by which its clients come.
ADDRESS = ("replicas/address",)
#: A cluster that goes on as one engine, with a virtual address.
FALLBACK = ("cluster/mp/fallback",)
EVERY = (*ALL, *BALANCED, *SWITCH, *OTHER_KIND, *ADDRESS, *FALLBACK, *LLAMA)
PAIRS = ALL[:3]
#: Where it makes no difference who starts the ranks.
EITHER = ALL[:2]
BACK = "serves again by itself"
SHARD = f"{cluster.STORE}/snapshots/{model.revision()}/model-00001-of-00002.safetensors"
KILL = "docker kill tandem-engine"
STOP, START = "systemctl stop tandem-engine", "systemctl start --no-block tandem-engine"


@dataclass(frozen=True)
class Fault:
    """One row of the matrix. Times are seconds.

    `heals`: `itself`, `deploy` (only a deploy puts it right) or `nothing` (what serves is not touched at all).
    `on_head`: the proxy or what it stands on is hit, so requests that were under way are lost in any topology.
    `undo` ends the fault `held_s` after it began; the time to serve again counts from there.
    `patience_s`: how much more than a cold start and 15 s it may take, with the reason in `expected`.
    `afterwards` puts back what the row itself took away, once everything that is left serves.
    `of_proxy`: the proxy alone is hit: it has 10 s and its own start.
    `passes_s`: after so many seconds at most new requests pass the door again.
    `takes_minutes`: it waits for starts of engines by itself, so clients pause from its begin.
    `told`: words that the deploy afterwards says of what had drifted.
    """

    name: str
    do: Act
    expected: str
    scenes: tuple[str, ...] = ALL
    heals: str = "itself"
    on_head: bool = False
    undo: Act | None = None
    held_s: float = 0.0
    afterwards: Act | None = None
    of_proxy: bool = False
    patience_s: float = 0.0
    passes_s: float = 0.0
    takes_minutes: bool = False
    told: str = ""
    fast: tuple[str, ...] = ()
