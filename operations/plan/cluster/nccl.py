"""Whose NCCL the ranks of a cluster load, and by which network it speaks.

[M] in docs/sources.md: with the build in torch's wheel (2.28.9, vLLM 0.20 to 0.26) two Sparks hang after 20 minutes to
hours; with the system's build of the image they do not. files/engine/nccl.py puts a link to the system's library in the
place of the wheel's, before anything loads it. VLLM_NCCL_SO_PATH alone would leave torch's own collectives with the
wheel's: vLLM's communicator is all that reads it.

Where the RDMA devices that it is told of are not there NCCL takes sockets, which is no error (vLLM #42075): where no
rank has them the engine serves, at a fraction of its speed. So NCCL is made to say its network, and a start is judged
by that, rank by rank.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from operations.plan.cluster import environment
from operations.plan.cluster.nodes import Node
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Remark
from operations.plan.recipes.recipe import Forbidden, Recipe

#: What each communicator says of itself at the level INFO (NCCL 2.27 to 2.30: init.cc, commAlloc). `NET/IB : Using` is
#: no such word: NCCL says that also where it has found no device, and takes sockets then (seen with 2.28.9).
_SAYS = "NCCL INFO Using network "
#: By RDMA: NCCL's own way, or that of a plugin in the image (`IBext_v10` of HPC-X in NVIDIA's own images).
BY_RDMA = f"{_SAYS}IB"
_MEND = (
    "`rdma link` has to name one for each rail, state ACTIVE, and /dev/infiniband to have a uverbs for each; a reboot "
    "brings back what an update of the driver took; where TCP is meant, set NCCL_IB_DISABLE to '1' in the recipe's env"
)
BY_SOCKETS = Forbidden(
    pattern=f"{_SAYS}Socket",
    meaning="NCCL speaks TCP, and every token is late: it has not found the RDMA devices of the rails, or the image "
    f"has no libibverbs. {_MEND}",
)
#: What meet.py says before NCCL does; it names the node and the device.
LACKING = Forbidden(
    pattern="can't use all RDMA devices: all ",
    meaning="every token is late by that. Where a device is not up, look at the cable. On the node that is named "
    f"{_MEND}",
)
#: The part of NCCL's messages that names the network, and levels at which it says it.
_PART, _LEVELS = "INIT", ("INFO", "TRACE")


def is_swapped(recipe: Recipe, knobs: Knobs) -> bool:
    """One GPU alone has nobody to talk to."""
    return recipe.nccl == "system" and knobs.topology == "cluster"


def commands(recipe: Recipe, knobs: Knobs) -> list[list[str]]:
    """What runs in a rank's container before the engine; it ends the start where it can't do it."""
    return [["python3", f"{environment.MOUNT}/nccl.py"]] if is_swapped(recipe, knobs) else []


def may_use_rdma(recipe: Recipe, knobs: Knobs) -> bool:
    """Whether ranks speak through NCCL, and the recipe has not turned RDMA off for it."""
    return knobs.topology == "cluster" and recipe.needs.gpu and not turns_rdma_off(recipe)


def turns_rdma_off(recipe: Recipe) -> bool:
    """Whether its ranks are to meet by sockets."""
    return recipe.env.get("NCCL_IB_DISABLE") == "1"


def seen_by(recipe: Recipe, knobs: Knobs, node: Node) -> Node:
    """A node as NCCL shall see it: without RDMA where it may not use it."""
    return node if may_use_rdma(recipe, knobs) else replace(node, rdma=())


def variables(recipe: Recipe, knobs: Knobs, node: Node) -> dict[str, str]:
    """What makes NCCL say what a start is judged by. A recipe may ask for more than that, and not for less."""
    level, asked = recipe.env.get("NCCL_DEBUG", ""), recipe.env.get("NCCL_DEBUG_SUBSYS", "")
    if not seen_by(recipe, knobs, node).rdma:
        # NCCL itself says its version when the ranks meet.
        return {"NCCL_DEBUG": level or "VERSION"} if is_swapped(recipe, knobs) else {}
    # A list that begins with `^` says what is left out.
    parts = ["ALL"] if asked.startswith("^") else dict.fromkeys([*filter(None, asked.split(",")), _PART])
    return {
        "NCCL_DEBUG": level if level.upper() in _LEVELS else _LEVELS[0],
        "NCCL_DEBUG_SUBSYS": ",".join(parts),
    }


def remarks(recipe: Recipe, knobs: Knobs) -> Iterator[Remark]:
    """A word where the ranks get more than the recipe asks for."""
    level = recipe.env.get("NCCL_DEBUG", "")
    if level and level.upper() not in _LEVELS and may_use_rdma(recipe, knobs):
        problem = f"env `NCCL_DEBUG` is `{level}`, and over RDMA the ranks of a cluster get {_LEVELS[0]}"
        yield Remark(False, problem, "nothing to do: a start is proven by what NCCL logs at INFO")


def expected(recipe: Recipe, knobs: Knobs) -> tuple[str, ...]:
    """What the log of some rank must say where the library is swapped. Not a version: both builds may have the same."""
    if not is_swapped(recipe, knobs):
        return ()
    return (r"NCCL: the system's \S+ stands for the wheel's", r"NCCL version \d|vLLM is using nccl==\d")


def expected_of_each(recipe: Recipe, knobs: Knobs, ranks: Sequence[Node]) -> dict[str, tuple[str, str]]:
    """Rank's node -> whose log must say that it speaks by RDMA, and the pattern. `ranks`: all of one engine's.

    Each says it in its node's own log; with Ray in the head's, behind the address of its node where that is another one
    (`(RayWorkerWrapper pid=2981, ip=192.168.177.12)`).
    """
    told = [each for each in ranks if seen_by(recipe, knobs, each).rdma]
    head = next((each.name for each in ranks if each.leads), "")
    if knobs.executor != "ray":
        return {each.name: (each.name, BY_RDMA) for each in told}
    before = {each.name: r"^(?!.*\bip=\S+\))" if each.leads else rf"\bip={re.escape(each.fabric)}\)" for each in told}
    return {name: (head, f"{begins}.*{BY_RDMA}") for name, begins in before.items()}
