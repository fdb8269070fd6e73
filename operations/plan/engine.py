"""The engine's command lines: pure, lists of words; nothing is quoted before it is written to a script."""

from __future__ import annotations

from operations.plan.environment import HUB
from operations.plan.knobs import Knobs
from operations.plan.nodes import Node
from operations.plan.recipe import Recipe

#: Ray keeps small objects here; its default is 30 % of memory, which on unified memory is the GPU's.
OBJECT_STORE_BYTES = 1 << 30


def model_path(recipe: Recipe) -> str:
    """The pinned snapshot inside the container."""
    return f"{HUB}/{recipe.model.folder}/snapshots/{recipe.model.revision}"


def serve(recipe: Recipe, knobs: Knobs, node: Node, tensor_parallel: int) -> list[str]:
    """`vllm serve` for one engine that answers on this node."""
    return [
        *("vllm", "serve", model_path(recipe), "--served-model-name", recipe.served_name),
        *("--host", engine_address(knobs, node), "--port", str(knobs.engine_port)),
        *("--tensor-parallel-size", str(tensor_parallel)),
        *recipe.flag_argv,
    ]


def ray_serve(recipe: Recipe, knobs: Knobs, head: Node, ranks: int) -> list[str]:
    """`vllm serve` on the head of a Ray cluster."""
    return [*serve(recipe, knobs, head, ranks), "--distributed-executor-backend", "ray"]


def mp_serve(recipe: Recipe, knobs: Knobs, head: Node, rank: int, ranks: int) -> list[str]:
    """`vllm serve` for one rank of a cluster that vLLM's own launcher joins."""
    argv = serve(recipe, knobs, head, ranks)
    argv += ["--distributed-executor-backend", "mp", "--nnodes", str(ranks), "--node-rank", str(rank)]
    argv += ["--master-addr", head.fabric, "--master-port", str(knobs.port("master"))]
    return argv if rank == 0 else [*argv, "--headless"]


def ray_start(knobs: Knobs, node: Node, head: Node) -> list[str]:
    """`ray start` with every port pinned: a firewall can name them, and two clusters can't meet by chance."""
    place = (
        ["--head", f"--port={knobs.port('gcs')}"] if node.is_head else [f"--address={head.fabric}:{knobs.port('gcs')}"]
    )
    argv = ["ray", "start", *place, f"--node-ip-address={node.fabric}"]
    argv += [
        f"--node-manager-port={knobs.port('node_manager')}",
        f"--object-manager-port={knobs.port('object_manager')}",
        f"--dashboard-agent-grpc-port={knobs.port('agent_grpc')}",
        f"--dashboard-agent-listen-port={knobs.port('agent_listen')}",
        f"--runtime-env-agent-port={knobs.port('runtime_env')}",
        f"--metrics-export-port={knobs.port('metrics')}",
        f"--min-worker-port={knobs.cluster_ports + 100}",
        f"--max-worker-port={knobs.cluster_ports + 299}",
        f"--object-store-memory={OBJECT_STORE_BYTES}",
        "--disable-usage-stats",
    ]
    if node.is_head:
        return [*argv, f"--ray-client-server-port={knobs.port('ray_client')}", "--include-dashboard=false"]
    return [*argv, "--block"]


def url(knobs: Knobs, node: Node) -> str:
    """Base URL of the engine that answers on a node."""
    return f"http://{engine_address(knobs, node)}:{knobs.engine_port}"


def engine_address(knobs: Knobs, node: Node) -> str:
    """Where an engine listens: loopback when only the proxy beside it asks, else the fabric."""
    return "127.0.0.1" if knobs.topology == "solo" else node.fabric
