"""A model as a value: one thing that is served, from which its units, folders, containers, ports and labels derive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from operations.paths import ENGINE, folder_of, run_folder
from operations.plan.cluster.addresses import engine_url
from operations.plan.cluster.nodes import Node
from operations.plan.config.knobs import PORTS_EACH, Knobs, Topology
from operations.plan.recipes.images import Image, engine_image
from operations.plan.recipes.recipe import Recipe


@dataclass(frozen=True)
class ServedModel:
    """`knobs`: the owner's, with this model's own words in the place of the general ones, its ports among them.
    `nodes`: those that it lies on, in the order of its ranks. `name`: the owner's; empty: it is the only one, declared
    by the knobs themselves. `slot`: which ports it has. `beside`: units of other models' engines on each of its nodes,
    the owner's first one first. `is_group`: it is one of several clusters of its model. `idle_minutes`: without a
    request, after which it is unloaded; 0: it is not loaded on demand.
    """

    recipe: Recipe
    knobs: Knobs
    nodes: tuple[Node, ...]
    name: str = ""
    slot: int = 0
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_group: bool = False
    idle_minutes: float = 0.0

    @property
    def is_on_demand(self) -> bool:
        """Whether it is loaded when somebody asks for it, and not at a deploy or a boot."""
        return self.idle_minutes > 0

    @property
    def unit(self) -> str:
        """Name of the engine's systemd unit, which its container has too; the same on each of its nodes."""
        return unit_of(self.name)

    @property
    def topology(self) -> Topology:
        """What its engines are said to be in."""
        return "replicas" if self.is_group else self.knobs.topology

    @property
    def group(self) -> str:
        """The nodes of one of several clusters, as its containers say them; empty: it is none."""
        return ",".join(each.name for each in self.nodes) if self.is_group else ""

    @property
    def takes_turns(self) -> bool:
        """Whether its engine is renewed while another one of the same model serves."""
        return self.topology == "replicas"

    @property
    def suffix(self) -> str:
        """What tells its steps from those of other models, behind a node's name."""
        return f"'s {self.name}" if self.name else ""

    @property
    def folder(self) -> str:
        return folder_of(self.unit)

    @property
    def container_id(self) -> str:
        """Where Docker writes which container it is: the guard kills by it."""
        return f"{run_folder(self.unit)}.cid"

    @property
    def meeting(self) -> str:
        """Where meet.py says whether the ranks have met."""
        return f"{run_folder(self.unit)}/meeting.json"

    @property
    def turn(self) -> str:
        """Where a rank finds that it may load (files/engine/turn.py)."""
        return f"{run_folder(self.unit)}/turn"

    def shares(self, node: Node) -> bool:
        """Whether another model lies on this node too."""
        return bool(self.beside.get(node.name))

    @property
    def image(self) -> Image:
        return engine_image(self.recipe, self.knobs)

    @property
    def leader(self) -> Node:
        """Rank 0's node."""
        return self.nodes[0]

    @property
    def answering(self) -> tuple[Node, ...]:
        """Nodes on which an engine of it answers."""
        if self.knobs.in_groups:
            return self.nodes[:: self.knobs.nodes_per_replica]
        return self.nodes if self.knobs.topology == "replicas" else self.nodes[:1]

    @property
    def endpoints(self) -> dict[str, str]:
        """Base URL of each of its engines, by the node that answers on it."""
        return {each.name: engine_url(self.knobs, each) for each in self.answering}

    @property
    def engines(self) -> tuple[ServedModel, ...]:
        """Each group of nodes as a cluster, with ranks of its own; without groups the model itself alone."""
        size = self.knobs.nodes_per_replica
        if not self.knobs.in_groups:
            return (self,)
        groups = [self.nodes[first : first + size] for first in range(0, max(len(self.nodes), 1), size)]
        one = replace(self, knobs=self.knobs.of_an_engine, is_group=True)
        return tuple(replace(one, nodes=ranked(each)) for each in groups)

    @property
    def parts(self) -> int:
        """Nodes that share the weights of each of its engines."""
        return len(self.engines[0].nodes) if self.knobs.of_an_engine.topology == "cluster" else 1

    def engine_on(self, name: str) -> ServedModel:
        """The model as the engine has it of which this node has a part."""
        return next(each for each in self.engines if each.lies_on(name))

    def ranks(self, node: Node) -> tuple[Node, ...]:
        """The nodes that share the engine which this node has a part of, rank 0 first."""
        if self.knobs.in_groups:
            return self.engine_on(node.name).nodes
        return self.nodes if self.knobs.topology == "cluster" else (self.on(node.name),)

    def on(self, name: str) -> Node:
        """One of its nodes, as its engine sees it."""
        return next(each for each in self.nodes if each.name == name)

    def lies_on(self, name: str) -> bool:
        return any(each.name == name for each in self.nodes)


def on(models: Sequence[ServedModel], name: str) -> tuple[ServedModel, ...]:
    """Those with a part on a node, each as its engine there has it."""
    return tuple(each.engine_on(name) for each in models if each.lies_on(name))


def joins_by_ray(model: ServedModel) -> bool:
    """Whether its ranks are Ray's."""
    return model.knobs.of_an_engine.topology == "cluster" and model.knobs.executor == "ray"


def unit_of(name: str) -> str:
    """The unit of a model's engine; one without a name has a name of its own to itself."""
    return f"{ENGINE}-{name}" if name else ENGINE


def with_ports(knobs: Knobs, slot: int) -> Knobs:
    """The knobs of the model that has these ports: the first one has those that the knobs name."""
    ports = {"engine_port": knobs.engine_port + slot, "cluster_ports": knobs.cluster_ports + slot * PORTS_EACH}
    return knobs.model_copy(update=ports) if slot else knobs


def ranked(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes of a model, each with its rank."""
    return tuple(replace(node, rank=rank) for rank, node in enumerate(nodes))
