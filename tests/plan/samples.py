"""Knobs, nodes and surveys to plan with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from operations.paths import ENGINE, SLICE
from operations.plan import plan as plans
from operations.plan.cluster.nodes import Node
from operations.plan.cluster.ring import neighbours, subnets_of
from operations.plan.config.knobs import Knobs, read_knobs
from operations.plan.declared import Declared, DeclaredModel
from operations.plan.plan import NodePlan, Plan
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.recipe import Recipe
from operations.plan.services import registry
from operations.plan.services.service import Service
from operations.plan.wanted import group_data

ROOT = Path(__file__).parents[2]


def knob_data(**changes: Any) -> dict[str, Any]:
    """What group_data/all.py sets as it is shipped, with changes."""
    return group_data() | changes


def knobs(**changes: Any) -> Knobs:
    return read_knobs(knob_data(**changes))


def nodes(count: int, of: Knobs, *, rdma: bool = True) -> list[Node]:
    """Nodes as a survey of DGX Sparks gives them."""
    rails = ("enp1s0f0np0", "enP2p1s0f0np0") if count > 1 else ()
    return [
        Node(
            name=f"spark-{index + 1}",
            index=index,
            management=f"10.0.0.{11 + index}",
            home="/home/spark",
            rails=rails,
            rdma=("rocep1s0f0", "roceP2p1s0f0") if rdma and rails else (),
            subnets=of.rail_subnets if rails else (),
            engine_group=SLICE,
            office=f"10.0.0.{11 + index}/24",
            office_device="enP7s7",
        )
        for index in range(count)
    ]


def ring(of: Knobs) -> list[Node]:
    """Three of them with a cable between each two: port 0 of each leads to port 1 of the next."""
    rails = ("enp1s0f0np0", "enP2p1s0f0np0", "enp1s0f1np1", "enP2p1s0f1np1")
    rdma = ("rocep1s0f0", "roceP2p1s0f0", "rocep1s0f1", "roceP2p1s0f1")
    return [
        replace(
            node,
            rails=rails,
            rdma=rdma,
            subnets=subnets_of(node.index, of.rail_subnets),
            ends=tuple(f"spark-{other + 1}" for other in neighbours(node.index) for _ in range(2)),
        )
        for node in nodes(3, of)
    ]


def one(recipe: Recipe, of: Knobs) -> Declared:
    """One model, declared by the knobs themselves."""
    return Declared(of, (DeclaredModel("", of, recipe),))


def make_plan(recipe: Recipe, of: Knobs, on: Sequence[Node]) -> Plan:
    """The plan of one model."""
    return plans.make_plan(one(recipe, of), on)


def plan(count: int = 2, **changes: Any) -> Plan:
    wanted = knobs(**changes)
    return make_plan(load_recipe(wanted.recipe), wanted, nodes(count, wanted))


def ring_plan(**changes: Any) -> Plan:
    wanted = knobs(**changes)
    return make_plan(load_recipe(wanted.recipe), wanted, ring(wanted))


def engine_of(planned: NodePlan) -> Service:
    """A node's engine, where it has one alone."""
    (engine,) = engines_of(planned).values()
    return engine


def engines_of(planned: NodePlan) -> dict[str, Service]:
    """A node's engines, by their units."""
    return {unit: planned.container(unit) for unit in planned.services if unit.startswith(ENGINE)}


def survey(**changes: Any) -> Any:
    """A healthy DGX Spark with nothing deployed."""
    link = {"carrier": True, "up": True, "mtu": 1500, "addresses": [], "mac": "", "driver": "mlx5_core"}
    found: dict[str, Any] = {
        "sudo": True,
        "home": "/home/spark",
        "machine": "aarch64",
        "kernel": "6.17.0-1032-nvidia",
        "ssh_port": 22,
        "came_in_by": "enP7s7",
        "openssl": True,
        "firewall": {"nft": True, "groups": True, "driver": "systemd"},
        "docker": {"version": "28.0.0", "runtimes": ["nvidia", "runc"], "buildx": True},
        "software": {"docker": "28.0.0", "nvidia-container-toolkit": "1.18.0"},
        "nvidia": "580.95.05",
        "cdi": False,
        "gpu": [],
        "saw_gpu": {},
        "unwritable": "",
        "memory": {"total_mib": 122_000, "available_mib": 115_000},
        "disks": {
            "store": {"path": "/home/spark/.cache/huggingface/hub", "free": 900 << 30, "device": 1, "read_only": False},
            "docker": {"path": "/var/lib/docker", "free": 900 << 30, "device": 1, "read_only": False},
            "files": {"path": "/etc/tandem", "free": 900 << 30, "device": 1, "read_only": False},
            "metrics": {"path": "/var/lib", "free": 900 << 30, "device": 1, "read_only": False, "kept": 0},
        },
        "ports": [],
        "netplan": [],
        "archives": {},
        "source": [],
        "token": "",
        "foreign": [],
        "lock": "",
        "vocabulary": {},
        "mtp": {},
        "layout": {},
        "main": {},
        "state": {
            "services": {"units": {unit: {} for unit in registry.to_tell()}, "strays": []},
            "images": {},
            "files": {},
            "links": {
                "enp1s0f0np0": link | {"mac": "30:c5:99:00:00:01", "rdma": "rocep1s0f0"},
                "enP2p1s0f0np0": link | {"mac": "30:c5:99:00:00:02", "rdma": "roceP2p1s0f0"},
            },
            "models": {},
            "kernels": {"gpu": "", "cpu": "", "kept": {}},
            "slots": {},
            "secrets": {},
            "modes": {"wrong": [], "refused": []},
            "served": "",
            "starts": {},
            "firewall": {"problem": "no firewall of Tandem's is here"},
            "proxy": {"loaded": "", "engines": {}, "older": [], "drained": []},
            "alone": {},
            "office": {"own": [], "known": {}},
            "missing": [],
            "refused": False,
            "certificate": {
                "hash": "",
                "names": [],
                "ends": 0.0,
                "authority": "",
                "own": "",
                "owners": [],
                "newer": False,
            },
        },
    }
    return found | changes
