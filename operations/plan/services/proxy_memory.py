"""What each of the proxy's programs may have of a node's memory, and who ends when it runs short. An engine loads for
minutes, so it never ends for what somebody sends to the proxy, which is back in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from operations.paths import ADDRESS, LITELLM, PROXY, run_folder

#: Whom the kernel takes first when all memory is gone: more than the engine's 500 (engine_service.py).
OOM_SCORE = 900


@dataclass(frozen=True)
class Bound:
    """`most_mib`: the kernel ends the container beyond that, alone. `usual_mib`: what it has while all is well. The
    guard ends one with more before any engine (files/guard/guard.py); 0: it is never ended for one. `idle_mib`: what it
    has with nobody to serve. Where what all of them have beyond that is what lacks, one of them goes first as well.
    """

    most_mib: int
    usual_mib: int
    idle_mib: int
    why: str


_LITELLM = Bound(4096, 1024, 410, "0.4 GiB when idle, and whole bodies of clients, 64 MiB each (`proxy_body_mib`)")
BOUNDS: dict[str, Bound] = {
    PROXY: Bound(
        3000, 768, 80, "80 MiB when idle; 512 KiB for 2,000 connections in each direction, and half as much again"
    ),
    **dict.fromkeys(LITELLM, _LITELLM),
    ADDRESS: Bound(512, 0, 28, "keepalived has 28 MiB, and nobody sends it anything"),
}


def container_id(unit: str) -> str:
    """The file that says which container runs of a unit."""
    return f"{run_folder(unit)}.cid"


def bounded(unit: str) -> list[str]:
    """Flags of `docker run` that say so."""
    bound = BOUNDS[unit]
    if not bound.usual_mib:
        return []
    return ["--oom-score-adj", str(OOM_SCORE), "--cidfile", container_id(unit)]


def memory(unit: str) -> str:
    """As Docker has it."""
    return f"{BOUNDS[unit].most_mib}m"
