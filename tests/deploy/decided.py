"""What a deploy would do about engines and proxies: the decisions of its steps in deploy.py's order, on looks that stay
as they are. Nothing is carried out, so no pyinfra runs; who waits is told at once what it would be told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from operations.paths import ENGINE, PROXY
from operations.plan.cluster.served_model import ServedModel
from operations.plan.decide import engine, proxy
from operations.plan.decide.actions import Action, AwaitEngine, AwaitStandIn, PlaceFiles, Start, Stop, TakeUp
from operations.plan.decide.seen import Seen
from operations.plan.plan import Plan


def stop(unit: str = ENGINE) -> str:
    """How the stop of a unit is printed."""
    return repr(Stop(unit))


def start(unit: str = ENGINE) -> str:
    """How its start is."""
    return repr(Start(unit))


class _Refused(Exception):
    """Somebody who was waited for does not answer."""


@dataclass
class Decided:
    """Actions by node (`spark-1`), in order, and whether the deploy has ended because an engine does not answer."""

    actions: list[tuple[str, Action]] = field(default_factory=list)
    refused: bool = False

    @property
    def commands(self) -> list[tuple[str, str]]:
        """What would change a node, as it is printed."""
        silent = ("Nothing", "AllAnswer", "AwaitEngine", "AwaitStandIn")
        return [(node, repr(each)) for node, each in self.actions if type(each).__name__ not in silent]

    def position(self, node: int, said: str) -> int:
        """Where an action of a node (1, 2) stands among all; fails when it is not there."""
        found = [i for i, (at, action) in enumerate(self.commands) if at == f"spark-{node}" and said in action]
        assert found, f"no {said} on spark-{node}: {self.commands}"
        return found[0]

    def of(self, kind: type[Action], node: int = 1) -> list[Action]:
        """Actions of this kind on a node, in order."""
        return [action for at, action in self.actions if at == f"spark-{node}" and isinstance(action, kind)]

    def written(self) -> list[str]:
        """Paths that are written or removed anywhere."""
        return [path for _, each in self.actions if isinstance(each, PlaceFiles) for path in each.paths]


def decided(
    plan: Plan, states: Sequence[Any], down: Collection[str] = (), *, takes_up: bool = True, is_dry: bool = False
) -> Decided:
    """`states`: looks at the nodes; `down`: nodes on which no engine answers; `takes_up`: whether a LiteLLM takes
    up other engines by itself.
    """
    names = [each.node.name for each in plan.nodes]
    looks, proven = dict(zip(names, states, strict=True)), set[tuple[str, str]]()
    seen = Seen(
        plan,
        looks.__getitem__,
        lambda _model, name: name not in down,
        lambda model, name: (model.unit, name) in proven,
        is_dry,
    )
    done = Decided()

    def act(name: str, actions: Iterable[Action]) -> list[str]:
        left = []
        for each in actions:
            done.actions.append((name.rpartition("/")[2], each))
            if isinstance(each, TakeUp) and not takes_up:
                left.append(each.unit)
            elif isinstance(each, AwaitEngine):
                _expect(name not in down)
                proven.add((each.unit, name))
            elif isinstance(each, AwaitStandIn):
                awaited = [other not in down for other in each.renewed]
                _expect(all(awaited) if awaited else any(other not in down for other in each.others))
        return left

    def serve() -> None:
        for name in names:
            if PROXY in plan.of(name).services:
                _serve(seen, name, act)
            else:
                act(name, proxy.gone(seen, name))

    def renew(model: ServedModel, turn: str) -> None:
        for name in names:
            act(name, engine.stand_in(seen, model, turn, name))
        if any(isinstance(each, AwaitStandIn) and each.renewed for _, each in done.actions):
            serve()
        for name in names:
            act(name, engine.renew(seen, model, turn, name))

    try:
        for step in (engine.files, engine.retire, engine.start):
            for name in names:
                act(name, step(seen, name))
        if engine.all_are_new(seen):
            serve()
        for model, turn in plan.turns:
            renew(model, turn)
        for step in (engine.ready, engine.forget_restarts):
            for name in names:
                act(name, step(seen, name))
        serve()
    except _Refused:
        done.refused = True
    return done


def _expect(answers: bool) -> None:
    if not answers:
        raise _Refused


def _serve(seen: Seen, name: str, act: Any) -> None:
    """As `operations/steps/proxy.py` goes from phase to phase."""
    found, here, left = seen.look(name), proxy.planned(seen, name), list[str]()
    act(name, proxy.files(here, found))
    for phase in proxy.renewals(proxy.in_order(here, found), tls=seen.plan.knobs.tls != "off"):
        left = act(name, phase(found, left))
    act(name, proxy.address(seen, name, ()))
    act(name, proxy.keepalived(seen, name))
