"""The environment of a rank, computed for its own node: interface names may differ from node to node."""

from __future__ import annotations

from collections.abc import Sequence

from operations.plan.cluster.nodes import Node, rails_between, rdma_between
from operations.plan.config.knobs import Knobs

#: Where the model store is mounted in the container.
HUB = "/hub"
#: Where the files of /etc/tandem/engine are mounted in the container.
MOUNT = "/tandem"
#: Where what an engine keeps for its next start is mounted.
CACHE_MOUNT = "/root/.cache"
#: Names of variables that each of Ray's workers has of its own node, and where vLLM looks for such names. All others of
#: NCCL_* and UCX_* it copies from the head, whose interfaces are the head's (vllm/ray/ray_env.py).
OWN_OF_RANKS, NOT_COPIED = "ray_own.json", "/root/.config/vllm/ray_non_carry_over_env_vars.json"


def common_environment() -> dict[str, str]:
    """What every engine gets, in every topology: the model is in the store, a start must not depend on the Hub, and
    nothing waits to tell somebody of it. DO_NOT_TRACK is read by vLLM, TensorRT-LLM (NVIDIA/TensorRT-LLM #12384) and
    the Hub's client (huggingface_hub/constants.py).
    """
    return {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": HUB, "DO_NOT_TRACK": "1"}


def rank_environment(node: Node, ranks: Sequence[Node]) -> dict[str, str]:
    """What the ranks of a cluster need to find each other over the fabric and nothing else. `ranks`: all of them.

    Source: [F] in docs/sources.md.
    """
    if node.ends:
        return _ring_environment(node, ranks)
    first = node.rails[0]
    env = {
        # NCCL's bootstrap, gloo's rendezvous and tensorpipe each look for an interface by themselves. Without RDMA NCCL
        # sends its data by sockets, over each interface that is named.
        "NCCL_SOCKET_IFNAME": _exactly([first]) if node.rdma else socket_interfaces(node, ranks),
        "GLOO_SOCKET_IFNAME": first,
        "TP_SOCKET_IFNAME": first,
        # UCX and Open MPI probe every interface and settle on one that the peer may not reach.
        "UCX_NET_DEVICES": first,
        "OMPI_MCA_btl_tcp_if_include": first,
        "MN_IF_NAME": first,
        # The GB10's cores are all near the GPU; an inherited affinity mask ties NCCL's threads to a few.
        "NCCL_IGNORE_CPU_AFFINITY": "1",
    }
    if node.rdma:
        # Both twins: each is half of the port's bandwidth (111 against 190 Gb/s).
        env["NCCL_IB_HCA"] = _exactly(node.rdma)
        env["NCCL_IB_DISABLE"] = "0"
    return env


def socket_interfaces(node: Node, ranks: Sequence[Node]) -> str:
    """NCCL_SOCKET_IFNAME of a rank whose data goes by sockets: every rail that leads to another of the `ranks`."""
    return _exactly([each["device"] for each in rails_between(node, ranks)])


def _ring_environment(node: Node, ranks: Sequence[Node]) -> dict[str, str]:
    """The same in a ring: over the cables to the other ranks, and no other.

    A port leads to one rank alone: NCCL must not merge twins of different ports into one device, and chooses the device
    by the peer's subnet ([W] in docs/sources.md). A program that asks for an interface takes its address, and each
    address of a node can be reached from both others (operations/plan/cluster/ring.py).
    """
    rails = [each["device"] for each in rails_between(node, ranks)]
    every = ",".join(rails)
    env = {
        "NCCL_SOCKET_IFNAME": socket_interfaces(node, ranks),
        "GLOO_SOCKET_IFNAME": rails[0],
        "TP_SOCKET_IFNAME": rails[0],
        "UCX_NET_DEVICES": every,
        "OMPI_MCA_btl_tcp_if_include": every,
        "MN_IF_NAME": rails[0],
        "NCCL_IGNORE_CPU_AFFINITY": "1",
    }
    if node.rdma:
        env["NCCL_IB_HCA"] = _exactly([each["device"] for each in rdma_between(node, ranks)])
        env["NCCL_IB_DISABLE"] = "0"
        env["NCCL_IB_MERGE_NICS"] = "0"
        env["NCCL_IB_SUBNET_AWARE_ROUTING"] = "1"
        # Subnets of 24 bits are its default, and a cable has a quarter of one.
        env["NCCL_IB_SUBNET_PREFIX_LEN"] = str(max(subnet.prefixlen for subnet in node.subnets))
        env["NCCL_CROSS_NIC"] = "1"
        # A plugin of the image's would choose devices by its own rules.
        env["NCCL_NET_PLUGIN"] = "none"
    return env


def _exactly(names: Sequence[str]) -> str:
    """A list for NCCL, which takes a name without `=` for the beginning of names: a VLAN's on the rail would do. It
    stands once, in front of all (read in NCCL 2.27 to 2.30). Gloo, tensorpipe, UCX and Open MPI take names as they are.
    """
    return "=" + ",".join(names)


def ray_environment(node: Node, head: Node, knobs: Knobs) -> dict[str, str]:
    """What Ray needs on each node of a cluster."""
    return {
        "RAY_ADDRESS": f"{head.fabric}:{knobs.port('gcs')}",
        "RAY_NODE_IP_ADDRESS": node.fabric,
        "RAY_OVERRIDE_NODE_IP_ADDRESS": node.fabric,
        # Explicit on every node: a head turns tokens on by itself when it finds one, a worker does not (Ray 2.60).
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": f"{MOUNT}/secrets/ray.token",
        # On unified memory Ray's monitor takes page cache for use and kills the engine.
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_num_prestart_python_workers": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        # No flag moves these two of the head's, 44217 and 44227 (read in 2.55: autoscaler/_private/constants.py,
        # dashboard/consts.py).
        "AUTOSCALER_METRIC_PORT": str(knobs.port("autoscaler_metrics")),
        "DASHBOARD_METRIC_PORT": str(knobs.port("dashboard_metrics")),
    }
