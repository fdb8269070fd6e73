"""models x nodes -> what each node shall have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from operations.plan import admission
from operations.plan.cluster.fabric import fabric_files
from operations.plan.cluster.nodes import Node
from operations.plan.cluster.served_model import ServedModel, on, ranked, with_ports
from operations.plan.config.files import File
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding, Refusal, typed
from operations.plan.declared import Declared, DeclaredModel, check_nodes
from operations.plan.ranks import check_groups, check_ranks
from operations.plan.recipes.recipe import Recipe
from operations.plan.services import proxy, registry
from operations.plan.services.contract import Context
from operations.plan.services.engine_service import engine_services
from operations.plan.services.fallback import check_fallback
from operations.plan.services.ports import listens
from operations.plan.services.service import Program, Service


@dataclass(frozen=True)
class NodePlan:
    """What one node shall have; a unit of Tandem's that is not among `services` must not be there."""

    node: Node
    fabric: tuple[File, ...]
    #: By unit, in the order in which they start.
    services: Mapping[str, Program] = field(default_factory=dict)

    def container(self, unit: str) -> Service:
        """A unit that runs a container here. Raises KeyError where the plan has none of that name."""
        service = self.services[unit]
        if not isinstance(service, Service):
            raise KeyError(f"{unit} runs no container")
        return service


@dataclass(frozen=True)
class Plan:
    """The whole declared state. `knobs`: those that are not one model's; of several models their topology says how
    nodes depend on each other, as `as_a_whole` has it.
    """

    declared: Declared
    knobs: Knobs
    models: tuple[ServedModel, ...]
    nodes: tuple[NodePlan, ...]

    @property
    def head(self) -> NodePlan:
        return self.nodes[0]

    @property
    def serving(self) -> tuple[NodePlan, ...]:
        """Nodes that run a rank or an engine, in the inventory's order."""
        return tuple(each for each in self.nodes if self.on(each.node.name))

    @property
    def urls(self) -> dict[str, str]:
        """Base URL of each proxy, by its node: all of them serve the same under the same keys."""
        return {each.node.name: proxy.client_url(self.knobs, each.node) for each in self.serving}

    @property
    def turns(self) -> list[tuple[ServedModel, str]]:
        """Each engine that is renewed while another one of its model serves, by the node that answers."""
        return [(each, node.name) for each in self.models if each.takes_turns for node in each.answering]

    def of(self, name: str) -> NodePlan:
        return next(each for each in self.nodes if each.node.name == name)

    def on(self, name: str) -> tuple[ServedModel, ...]:
        """The models with a part on a node, as their engines there have them, in the owner's order."""
        return on(self.models, name)


def check_topology(of: Declared, names: Sequence[str]) -> None:
    """Refuse what can't be, with the knob that would have to change. `names`: of the inventory's nodes."""
    check_nodes(of, names)
    if of.knobs.models and of.knobs.fallback != "off":
        problem = f"fallback={of.knobs.fallback} is for a model that has all nodes to itself, and `models` names some"
        raise Refusal(Finding("knob", problem, "set fallback to off"))
    if of.knobs.models and names[0] not in of.serving(names):
        problem = f"no model lies on {names[0]}, the head: keys of clients, and what watches all nodes, are there"
        raise Refusal(Finding("models", problem, f"give one of them {names[0]}, or put another node first"))
    if len(names) + 11 > min(subnet.num_addresses for subnet in of.knobs.rail_subnets) - 2:
        said = typed("fabric_subnets", of.knobs.fabric_subnets)
        problem = f"{said}: too small for {len(names)} nodes, of which the head has .11"
        raise Refusal(Finding("knob", problem, "give each rail a wider subnet, a /24 for instance"))
    for model in of.models:
        try:
            check_one(
                model.recipe, model.knobs, len(model.lies_on(names)), f"models.{model.name}" if model.name else ""
            )
        except Refusal as refusal:
            if not model.name:
                raise
            found = (Finding(f"models.{model.name}", each.problem, each.remedy) for each in refusal.findings)
            raise Refusal(*found) from None


def check_one(recipe: Recipe, knobs: Knobs, node_count: int, where: str = "") -> None:
    """The same of one model. `where`: what declares its nodes, where that is not the inventory."""
    has, add = (f"{where} has", f"{where}.nodes") if where else ("the inventory has", "the inventory")
    if knobs.nodes_per_replica > 1:
        check_groups(recipe, knobs, node_count, has, add)
        return
    if knobs.topology not in recipe.topologies:
        allowed = ", ".join(recipe.topologies)
        problem = f"topology={knobs.topology}: the recipe {recipe.name} runs in: {allowed}"
        raise Refusal(Finding("knob", problem, f"set topology to one of: {allowed}, or choose another recipe"))
    check_fallback(recipe, knobs)
    check_ranks(recipe, knobs, node_count)
    if knobs.topology == "cluster" and node_count < recipe.min_nodes:
        problem = f"the recipe {recipe.name} wants {recipe.min_nodes} nodes or more; {has} {node_count}"
        raise Refusal(Finding("knob", problem, f"add nodes to {add}, or choose another recipe"))
    if knobs.topology != "solo" and node_count < 2:
        problem = f"topology={knobs.topology} needs two nodes or more; {has} {node_count}"
        raise Refusal(Finding("knob", problem, f"add a node to {add}, or set topology to solo"))
    if knobs.topology == "solo" and node_count > 1:
        problem = f"topology=solo is one engine on one node; {has} {node_count}"
        raise Refusal(Finding("knob", problem, "name one node, or set topology to cluster or replicas"))


def as_a_whole(of: Declared, names: Sequence[str]) -> Knobs:
    """The general knobs, with how the nodes depend on each other as topology: solo where all lies on the head, else
    replicas, of which each node has a proxy that reaches the engines of all over the fabric.
    """
    if not of.knobs.models:
        return of.knobs
    is_alone = of.serving(names) == tuple(names[:1])
    return of.knobs.model_copy(update={"topology": "solo" if is_alone else "replicas"})


def make_plan(
    of: Declared,
    nodes: Sequence[Node],
    *,
    names: Sequence[str] = (),
    slots: Mapping[str, int] | None = None,
) -> Plan:
    """The plan; raises Refusal when recipes, topologies and nodes do not go together.

    `names`: of all nodes of the inventory, where some of them do not answer. `slots`: ports that models have already,
    by their names.

    Solo has no fabric: its nodes have no rails, whatever they have cables in. So the head gets the same with the other
    node on, off, unplugged or not in the inventory, and its network is left as it is: what a cluster has written for
    its rails stays, and is found as planned when the cluster comes back.
    """
    names = names or [node.name for node in nodes]
    check_topology(of, names)
    knobs = as_a_whole(of, names)
    if knobs.topology == "solo":
        nodes = [_off_the_fabric(node) for node in nodes]
    models = served_models(of, nodes, names, slots or {})
    admission.check(of.models, models, nodes, knobs.memory_floor_gib)
    serving = [node for node in nodes if any(each.lies_on(node.name) for each in models)]
    for node in serving:
        proxy.check_bind(knobs, node)
    engines = {each.unit: engine_services(each) for each in models}
    recipe, count = of.first.recipe, len(nodes)
    return Plan(
        of, knobs, models, tuple(_node_plan(knobs, recipe, node, serving, models, engines, count) for node in nodes)
    )


def ports_by_node(of: Declared, names: Sequence[str]) -> dict[str, dict[int, str]]:
    """Ports on which each node listens, with the knob that moves each, where nobody has been asked: models have the
    ports that they get in a plan from nothing.
    """
    nodes = [Node(name, index, name, "") for index, name in enumerate(names)]
    models, knobs = served_models(of, nodes, names, {}), as_a_whole(of, names)
    return {node.name: listens(node, knobs, len(nodes), on(models, node.name)) for node in nodes}


def served_models(
    of: Declared, nodes: Sequence[Node], names: Sequence[str], slots: Mapping[str, int]
) -> tuple[ServedModel, ...]:
    """Each model on its nodes, with its ports. One that has some already keeps them; the others get the lowest that are
    free.
    """
    given = slots_for(of.models, slots)
    by_name = {node.name: node for node in nodes}
    lies = {each.name: each.lies_on(names) for each in of.models}
    units = {node: tuple(each.name for each in of.models if node in lies[each.name]) for node in names}
    found = []
    for each in of.models:
        mine = tuple(by_name[name] for name in lies[each.name] if name in by_name)
        beside = {node: tuple(other for other in units[node] if other != each.name) for node in lies[each.name]}
        own = with_ports(each.knobs, given[each.name])
        on_nodes = ranked(mine) if each.name else mine
        model = ServedModel(each.recipe, own, on_nodes, each.name, given[each.name], beside, False, each.idle_minutes)
        found.append(admission.with_its_share(model, each.memory_gib))
    return tuple(found)


def slots_for(models: Sequence[DeclaredModel], taken: Mapping[str, int]) -> dict[str, int]:
    """Which ports each model has, by its name."""
    kept: dict[str, int] = {}
    for each in models:
        # Two that say the same, by whatever hand: the owner's first one keeps it.
        if each.name in taken and taken[each.name] not in kept.values():
            kept[each.name] = taken[each.name]
    free = (slot for slot in range(len(models) + len(kept)) if slot not in kept.values())
    return {each.name: kept[each.name] if each.name in kept else next(free) for each in models}


def _off_the_fabric(node: Node) -> Node:
    """The node without rails, whatever it has cables in."""
    return replace(node, rails=(), rdma=(), subnets=(), ends=())


def _node_plan(
    knobs: Knobs,
    recipe: Recipe,
    node: Node,
    serving: Sequence[Node],
    models: Sequence[ServedModel],
    engines: Mapping[str, Mapping[str, Service]],
    count: int,
) -> NodePlan:
    here = on(models, node.name)
    if not here:
        # It has no rank, no proxy and no copy to take: its ports and their cables are its owner's.
        return NodePlan(_off_the_fabric(node), ())
    units = registry.to_remove([each.unit for each in here])
    context = Context(knobs, recipe, node, serving, count, models, here, engines, units)
    return NodePlan(node, fabric_files(knobs, node), registry.rendered(context))
