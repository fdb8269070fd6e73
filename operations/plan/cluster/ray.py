"""`ray start` on each node of a cluster: pure, lists of words; nothing is quoted before it is written to a script."""

from __future__ import annotations

from operations.plan.cluster.nodes import Node
from operations.plan.config.knobs import Knobs

#: Ray keeps small objects here; its default is 30 % of memory, which on unified memory is the GPU's.
OBJECT_STORE_BYTES = 1 << 30


def ray_start(knobs: Knobs, node: Node, head: Node) -> list[str]:
    """`ray start` with every port pinned: a firewall can name them, and two clusters can't meet by chance."""
    place = (
        ["--head", f"--port={knobs.port('gcs')}"] if node.leads else [f"--address={head.fabric}:{knobs.port('gcs')}"]
    )
    argv = ["ray", "start", *place, f"--node-ip-address={node.fabric}"]
    argv += [
        f"--node-manager-port={knobs.port('node_manager')}",
        f"--object-manager-port={knobs.port('object_manager')}",
        f"--dashboard-agent-grpc-port={knobs.port('agent_grpc')}",
        f"--dashboard-agent-listen-port={knobs.port('agent_listen')}",
        f"--runtime-env-agent-port={knobs.port('runtime_env')}",
        f"--metrics-export-port={knobs.port('metrics')}",
        f"--min-worker-port={knobs.ray_worker_ports[0]}",
        f"--max-worker-port={knobs.ray_worker_ports[-1]}",
        f"--object-store-memory={OBJECT_STORE_BYTES}",
        "--disable-usage-stats",
    ]
    if node.leads:
        return [*argv, f"--ray-client-server-port={knobs.port('ray_client')}", "--include-dashboard=false"]
    return [*argv, "--block"]
