"""Ports on which a node listens, and the knob that moves each."""

from __future__ import annotations

from collections.abc import Sequence

from operations.plan.cluster.nodes import Node
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.knobs import Knobs
from operations.plan.services.proxy import talks


def listens(node: Node, knobs: Knobs, count: int, models: Sequence[ServedModel]) -> dict[int, str]:
    """Ports on which a node of `count` listens while it serves or a copy goes on, with the knob that moves each.
    `models`: those with a part on it.
    """
    is_head = node.is_head
    wanted: dict[int, str] = {}
    for model in models:
        wanted |= _of_an_engine(model.on(node.name), model.knobs)
    if models:
        wanted[knobs.proxy_port] = "proxy_port"
    if any(each.is_on_demand for each in models):
        wanted[knobs.port("on_demand")] = "cluster_ports"
    if knobs.monitoring != "off" and models:
        wanted[knobs.monitoring_port] = "monitoring_port"
    if knobs.runs_prometheus and is_head and models:
        wanted |= {knobs.prometheus_port: "prometheus_port", knobs.alertmanager_port: "alertmanager_port"}
    if models and talks(knobs, node):
        wanted[knobs.port("office")] = "cluster_ports"
    copies: list[int] = []
    if knobs.topology != "solo":
        # The head has a server for each worker; where there are several, they hand on what they have.
        copies = list(range(1, count)) if is_head else [node.index] if count > 2 else []
    return wanted | dict.fromkeys((knobs.copy_port(index) for index in copies), "cluster_ports")


def _of_an_engine(node: Node, knobs: Knobs) -> dict[int, str]:
    """Ports of a model's engine on one of its nodes."""
    wanted: dict[int, str] = {}
    if node.leads or knobs.topology == "replicas" or knobs.falls_back:
        wanted[knobs.engine_port] = "engine_port"
    names: list[str] = []
    if knobs.topology == "cluster":
        # A node that serves alone answers there those who come back.
        names += ["meeting"] if node.leads or knobs.falls_back else []
        if knobs.executor == "mp":
            names += ["master"] if node.leads else []
        else:
            names += ["node_manager", "object_manager", "agent_grpc", "agent_listen", "runtime_env", "metrics"]
            names += ["gcs", "ray_client", "autoscaler_metrics", "dashboard_metrics"] if node.leads else []
    return wanted | dict.fromkeys((knobs.port(name) for name in names), "cluster_ports")
