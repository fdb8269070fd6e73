"""What engines keep below /root/.cache for their next start, and what a cluster's ranks may each have of it.

A rank that finds what the others lack is ahead of them. That does no harm where they only come later. They wait for
ever where what it finds lets it skip a step that all take together. A node that was replaced is such a case: it is
cold, and the others are warm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from operations.plan.cluster.environment import CACHE_MOUNT
from operations.plan.config.refusal import Remark
from operations.plan.recipes.lint.subject import parse
from operations.plan.recipes.recipe import Recipe

#: Where a container has what its ranks must have alike: it goes with the container, so that all begin with nothing.
ONE_START = "/tmp/tandem-one-start"
#: Variables that say where engines and their libraries keep what they have compiled -> folders of a cache's path. What
#: Python's libraries keep beside these goes with Triton's. The first two are not below /root/.cache by themselves.
_MOVED = {"TRITON_CACHE_DIR": "triton", "CUDA_CACHE_PATH": "nv"}
_SAY_WHERE = {
    **_MOVED,
    **dict.fromkeys(("VLLM_CACHE_ROOT", "XDG_CACHE_HOME"), "vllm"),
    **dict.fromkeys(("TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TILELANG_CACHE_DIR"), "triton"),
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "DG_JIT_CACHE_DIR": "deep_gemm",
    "SGLANG_DG_CACHE_DIR": "sglang/deep_gemm",
}


@dataclass(frozen=True)
class Cache:
    """One folder below /root/.cache.

    `ranks`: `own`, each rank may have another, or none; `alike`, they hang unless all find the same. `key`: by what the
    engine tells entries of other models, flags and GPUs apart; the image is told apart by the volume. `by_name`: that
    is all that an entry hangs on but image and processor, so another plan of theirs may begin with it. `is_compiled`:
    making it takes long; else each node makes its own.

    `source`: where that was read. `since`, `before`: the releases that it is so in, from and up to; empty: no bound.
    `variable`: what says where it lies. `switch`: the variable without which it is not kept at all. One that is to be
    alike has either.
    """

    path: str
    ranks: Literal["own", "alike"]
    key: str
    source: str
    by_name: bool = False
    is_compiled: bool = True
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


#: Of CUDA's driver, for any engine.
CUDA = Cache(
    path="nv",
    ranks="own",
    key="each kernel's PTX, the driver, and the GPU",
    source="CUDA C++ Programming Guide, CUDA_CACHE_PATH: code of PTX, where an image has none for this GPU. By itself "
    "it is in /root/.nv, and goes with the container",
    by_name=True,
)
#: By which the two that are not below /root/.cache by themselves come to lie there.
MOVED = {name: f"{CACHE_MOUNT}/{path}" for name, path in _MOVED.items()}
#: Of libraries that any engine here has; each writes a file whole and then renames it.
LIBRARIES = (
    Cache(
        path="flashinfer",
        ranks="own",
        key="FlashInfer's version, the GPU's architecture, and each kernel's parameters",
        source="flashinfer/jit/env.py of 0.7.0, FLASHINFER_WORKSPACE_DIR: a lock for each kernel, no collective",
        by_name=True,
    ),
    Cache(
        path="triton",
        ranks="own",
        key="each kernel's code, the compiler, and the GPU",
        source="triton/runtime/cache.py, TRITON_CACHE_DIR: a folder for each hash, no collective. By itself it is in "
        "/root/.triton, and goes with the container",
        by_name=True,
    ),
    Cache(
        path="pycache",
        ranks="own",
        key="each file's place in the image, its time and size, and Python's version",
        source="docs.python.org, PYTHONPYCACHEPREFIX: byte code of an image that has none (files/engine/byte_code.py)",
        by_name=True,
    ),
    CUDA,
    Cache(
        path="huggingface",
        ranks="own",
        key="the model's repository and revision",
        source="a model's own code is copied there, from the same store on every node",
        is_compiled=False,
    ),
)


def lost(recipe: Recipe, caches: Sequence[Cache]) -> Iterator[Remark]:
    """A recipe's folders of compiled code that are not below the one that stays: other tools mount others. `caches`:
    its engine's.
    """
    paths = " ".join(f"/{each.path}/" for each in caches)
    for name, value in recipe.env.items():
        # FlashInfer's own folder is below that of a user.
        place = f"{value.rstrip('/')}/.cache" if name.endswith("_BASE") else value
        is_used = name in _SAY_WHERE and f"/{_SAY_WHERE[name]}/" in paths
        if is_used and value.startswith("/") and not f"{place}/".startswith(f"{CACHE_MOUNT}/"):
            problem = f"env `{name}` is `{value}`, which goes with the container: each start compiles anew"
            yield Remark(False, problem, f"remove it, or name a folder below {CACHE_MOUNT}, which stays")


def alike(caches: Iterable[Cache], version: str) -> list[Cache]:
    """Those that the ranks of a cluster must have alike, in a release; empty `version`: it is not known."""
    return [each for each in caches if each.ranks == "alike" and each.is_of(version)]


def for_one_start(caches: Iterable[Cache], version: str) -> dict[str, str]:
    """Variables by which a rank keeps them no longer than its container: all ranks of each start begin with nothing."""
    movable = (each for each in alike(caches, version) if each.variable)
    return {each.variable: f"{ONE_START}/{each.path.rpartition('/')[2]}" for each in movable}


def handed(caches: Sequence[Cache], version: str, *, is_cluster: bool) -> list[str]:
    """Paths of what one node's engine may have of another's, below /root/.cache: what takes long to make, and in a
    cluster nothing that its ranks must have alike.
    """
    never = {each.path for each in alike(caches, version)} if is_cluster else set()
    found = (each.path for each in caches if each.is_compiled and each.is_of(version) and each.path not in never)
    return list(dict.fromkeys(found))


def by_name(caches: Sequence[Cache]) -> list[str]:
    """Paths of what another plan of the same image and processor may begin with."""
    return [each.path for each in caches if each.by_name]
