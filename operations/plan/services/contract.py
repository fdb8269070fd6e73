"""What every service says of itself: one contract that all keep, so that a plan and a deploy treat them alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, auto

from operations.plan.cluster.nodes import Node
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.knobs import Knobs
from operations.plan.recipes.recipe import Recipe
from operations.plan.services.service import Program, Service
from operations.wire.look import Look


@dataclass(frozen=True)
class Context:
    """What the services of a node are rendered from."""

    knobs: Knobs
    #: The first model's.
    recipe: Recipe
    node: Node
    #: All nodes that serve, in the inventory's order.
    serving: Sequence[Node]
    #: Nodes of the inventory.
    count: int
    models: Sequence[ServedModel]
    #: Those with a part on this node, as their engines here have them.
    here: Sequence[ServedModel]
    #: Of every model: unit -> node -> its engine there.
    engines: Mapping[str, Mapping[str, Service]]
    #: All that Tandem may have put on this node, in the order in which it is taken away.
    units: Sequence[str]

    def engine(self, model: ServedModel) -> Service:
        """The engine of a model of `here`."""
        return self.engines[model.unit][self.node.name]


class Start(Enum):
    """Which step of a deploy places a service and starts it, and takes it away where the plan has it no more."""

    #: A unit that sets something and ends. The deploy waits for it before anything else starts, and fails with it.
    SETTING = auto()
    #: Starts before an engine is stopped. It is taken away when engines are.
    BEFORE_ENGINE = auto()
    #: Starts then, too. It is taken away after the proxies, which read what it writes.
    BEFORE_PROXY = auto()
    #: Starts when engines have been started.
    AFTER_ENGINE = auto()
    #: Starts when the plan serves, and nothing waits for it.
    AT_END = auto()
    #: Has a step of its own, which knows it by name.
    OWN_STEP = auto()


class Removal(IntEnum):
    """When a service goes, where all of Tandem does; among equals the last to start is the first to go."""

    #: It would start another one, kill it, or raise an alarm for it.
    FIRST = auto()
    #: It answers clients, or stands behind what does.
    SERVING = auto()
    #: Engines need it as long as they run.
    AFTER_ENGINES = auto()
    #: It shuts out everybody else from what runs.
    LAST = auto()


@dataclass(frozen=True)
class Contract:
    """A service, and how a deploy treats it.

    What runs is compared with the plan by its unit, its files and its image; `differs` is for what else a look knows.
    """

    #: One, or several that are each other's equals. An engine of a model among several has a unit that begins so.
    units: tuple[str, ...]
    #: Its programs on a node; none, or None: the plan does not have it there.
    render: Callable[[Context], Iterable[Program | None]]
    start: Start
    removal: Removal = Removal.FIRST
    #: In what else a look finds it not to be the plan's, in a few words; empty: in nothing. Then it is started anew.
    differs: Callable[[Look], str] = lambda _: ""
    #: What can't be done where a SETTING fails, in the owner's words; its log follows.
    failure: str = ""
