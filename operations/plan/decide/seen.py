"""What decisions go by: the plan, a look at each node, and what an engine answers when it is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from operations.plan.cluster.served_model import ServedModel
from operations.plan.plan import Plan
from operations.wire.look import Look


@dataclass
class Seen:
    """`look`: at a node, by its name. `is_live`: whether the engine of a model that answers on a node serves; asked as
    seldom as can be. `is_proven`: whether this run has started that engine, and found it to be the one that was meant.
    `is_dry`: nothing is done, so nobody is asked.
    """

    plan: Plan
    look: Callable[[str], Look]
    is_live: Callable[[ServedModel, str], bool]
    is_proven: Callable[[ServedModel, str], bool] = lambda _model, _name: False
    is_dry: bool = False
    #: Whether what was found of a model on a node serves until its turn comes, by unit and node: one answer a run.
    waits: dict[tuple[str, str], bool] = field(default_factory=dict)
