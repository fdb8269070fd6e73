"""The engines of all topologies on one host: an engine a GPU, and one over both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from operations.plan.cluster.nodes import Node
from operations.plan.config.knobs import Knobs, read_knobs
from operations.plan.engines import ENGINES
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.recipe import Recipe
from operations.plan.wanted import group_data
from tests.gpu.started import Program

ROOT = Path(__file__).parents[2]
RECIPES = Path(__file__).parent / "recipes"
#: The host as the plan sees it: one node without rails, so that everything listens on loopback.
HOST = Node("gpu", 0, "127.0.0.1", "/root")

#: Set by the plan for GB10's unified memory, and wrong here: ranks of one host share memory that can't grow so.
_NOT_HERE = ("PYTORCH_CUDA_ALLOC_CONF",)
#: No Hub; and no NVLink multicast, which needs rights that a guest on a shared host may lack.
_HERE = {"HF_HUB_OFFLINE": "1", "VLLM_ALLREDUCE_USE_SYMM_MEM": "0", "NCCL_NVLS_ENABLE": "0"}


@dataclass(frozen=True)
class Engine:
    """One of them. `gpus` as CUDA counts them."""

    name: str
    gpus: tuple[int, ...]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


FIRST, SECOND, BOTH = Engine("gpu-0", (0,), 18101), Engine("gpu-1", (1,), 18102), Engine("gpu-0+1", (0, 1), 18103)


def recipe(name: str) -> Recipe:
    """One of tests/gpu/recipes."""
    return load_recipe(str(RECIPES / f"{name}.yaml"))


def knobs(**changed: object) -> Knobs:
    """Those of group_data with what is changed."""
    return read_knobs(group_data() | changed)


def program(vllm: Sequence[str], made_of: Recipe, engine: Engine, model: Path, folder: Path) -> Program:
    """As Tandem starts it, but for where things lie. `vllm`: the words that `vllm` is."""
    plan = knobs(recipe=made_of.name, topology="solo", engine_port=engine.port)
    _, serve, _, *rest = ENGINES["vllm"].commands(made_of, plan, HOST, [HOST])[0]
    at = rest.index("--tensor-parallel-size") + 1
    rest[at] = str(len(engine.gpus))
    return Program(
        name=engine.name,
        argv=(*vllm, serve, str(model), *rest),
        environment={**environment(made_of), "CUDA_VISIBLE_DEVICES": ",".join(map(str, engine.gpus))},
        asks=f"{engine.url}/health",
        folder=folder,
    )


def environment(made_of: Recipe) -> Mapping[str, str]:
    """What an engine has of it besides that of this host."""
    plan = {
        name: value for name, value in ENGINES["vllm"].environment(made_of, knobs()).items() if name not in _NOT_HERE
    }
    return {**plan, **made_of.env, **_HERE}
