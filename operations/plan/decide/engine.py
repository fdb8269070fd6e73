"""What is done about the engines of a node: files first, then what is not the plan's stops, then starts."""

from __future__ import annotations

from operations.plan.cluster.served_model import ServedModel
from operations.plan.decide.actions import (
    Action,
    Actions,
    AllAnswer,
    AwaitEngine,
    AwaitStandIn,
    EndAlone,
    EngineStarted,
    ForgetRestarts,
    LeaveToDemand,
    LetCooldownsEnd,
    LoadingBegins,
    Nothing,
    Remove,
    RemoveContainer,
    ServiceStops,
    Start,
    Stop,
    place,
)
from operations.plan.decide.seen import Seen
from operations.plan.decide.unit_state import (
    engines,
    has_container,
    has_restarted,
    is_running,
    is_stale,
    is_up,
    out_of_place,
    starts_at_boot,
    unit_state,
)


def files(seen: Seen, name: str) -> Actions:
    """Files of the engines on a node. One that waits for its turn keeps its own until then; a dry run shows what comes
    all the same.
    """
    models = [each for each in seen.plan.on(name) if seen.is_dry or not waits_for_its_turn(seen, each, name)]
    if not models:
        return (Nothing("no engine belongs here, or each waits for its turn"),)
    return tuple(action for each in models for action in _placed(seen, each, name))


def retire(seen: Seen, name: str) -> Actions:
    """Stop what is not the plan's, and what is so no longer unless it waits for its turn."""
    found, here = seen.look(name), {each.unit: each for each in seen.plan.on(name)}
    actions: list[Action] = [RemoveContainer(stray) for stray in found["services"]["strays"]]
    if alone := found["alone"]:
        actions.append(EndAlone(alone.get("since", "?")))
    for unit in engines(found):
        if unit not in here:
            served = bool(unit_state(found, unit).get("url"))
            actions += [*_without_service(seen, unit, name, served=served), Remove(unit)]
    for model in here.values():
        if _has_to_stop(seen, model, name):
            is_awaited = not model.is_on_demand
            actions += [*_without_service(seen, model.unit, name, served=is_awaited), Stop(model.unit)]
    return tuple(actions) or (Nothing("nothing to stop"),)


def start(seen: Seen, name: str) -> Actions:
    """Actions that start engines of a node: each that is not up, but for models on demand. Their units lose their start
    at boot instead, since another program starts them. One `Nothing` where all run.
    """
    found, actions = seen.look(name), list[Action]()
    for model in seen.plan.on(name):
        if model.is_on_demand:
            actions += [LeaveToDemand(model.unit)] if starts_at_boot(found, model.unit) else []
        elif not is_up(found, model.unit):
            # One that waited for its turn, and has ended, has none of its files yet.
            late = () if is_running(found, model.unit) else _placed(seen, model, name)
            actions += [*late, Start(model.unit), EngineStarted(model.unit, model), LoadingBegins()]
    return tuple(actions) or (Nothing("runs"),)


def stand_in(seen: Seen, model: ServedModel, turn: str, name: str) -> Actions:
    """Before the engine of the node whose turn it is stops, another one serves."""
    actions: list[Action] = [Nothing(f"it is the turn of {turn}")]
    if name == turn and not seen.is_dry and _is_stale(seen, model, name) and has_container(seen.look(name), model.unit):
        others = tuple(each for each in model.endpoints if each != turn)
        renewed = tuple(each for each in others if seen.is_proven(model, each) or not _is_stale(seen, model, each))
        actions.append(AwaitStandIn(model.unit, renewed, others, model))
    return tuple(actions)


def renew(seen: Seen, model: ServedModel, turn: str, name: str) -> Actions:
    """Restart the engine of the node whose turn it is. All ranks of a group at once: they meet anew, whoever comes
    first.
    """
    if name not in [each.name for each in model.ranks(model.on(turn))]:
        return (Nothing(f"it is the turn of {turn}"),)
    if not _is_stale(seen, model, turn):
        return (Nothing("is as planned"),)
    cooled: Actions = (LetCooldownsEnd(),) if has_container(seen.look(name), model.unit) else ()
    answer: Actions = (AwaitEngine(model.unit, model),) if name == turn else ()
    started = (Stop(model.unit), Start(model.unit), EngineStarted(model.unit, model))
    return (*cooled, *_placed(seen, model, name), *started, *answer)


def ready(seen: Seen, name: str) -> Actions:
    """Wait for a real answer of each engine that a deploy starts."""
    here = () if seen.is_dry else [each for each in seen.plan.on(name) if not each.is_on_demand]
    answers = (AwaitEngine(each.unit, each) for each in here if name in each.endpoints)
    return (*answers, AllAnswer())


def forget_restarts(seen: Seen, name: str) -> Actions:
    """An engine serves, and somebody has looked: what it has been through does not count any more."""
    here = [] if seen.is_dry else [each.unit for each in seen.plan.on(name)]
    restarted = [unit for unit in here if has_restarted(seen.look(name), unit)]
    return (*map(ForgetRestarts, restarted), Nothing("answers"))


def all_are_new(seen: Seen) -> bool:
    """Whether no engine serves that is still to be renewed: then the proxies need not wait for those that start."""
    names = [each.node.name for each in seen.plan.serving]
    here = [(name, each) for name in names for each in seen.plan.on(name)]
    return not seen.is_dry and not any(_is_older(seen, model, name) for name, model in here)


def waits_for_its_turn(seen: Seen, model: ServedModel, name: str) -> bool:
    """Whether what runs of a model on a node, and is not the plan's, serves until another engine does (`renew`). One
    answer a run: its files and its stop go by it.
    """
    if seen.is_dry:
        return _may_wait(seen, model, name)
    if (model.unit, name) not in seen.waits:
        first = model.ranks(model.on(name))[0].name
        seen.waits[model.unit, name] = _may_wait(seen, model, name) and seen.is_live(model, first)
    return seen.waits[model.unit, name]


def _may_wait(seen: Seen, model: ServedModel, name: str) -> bool:
    found = seen.look(name)
    # The labels of its container: a unit that only waits has none. In groups of other nodes than now it is another
    # layout, whose ranks would go one by one.
    runs = unit_state(found, model.unit)
    is_a_replica = runs.get("topology") == "replicas"
    # So is a solo, mostly at another address. Two of them that become replicas on each other's nodes would wait for
    # ever for each other's memory.
    is_a_replica |= runs.get("topology") == "solo" and not any(model.shares(each) for each in model.nodes)
    is_a_replica &= runs.get("group", "") == model.group and not found["alone"]
    return model.takes_turns and is_a_replica and _is_older(seen, model, name)


def _has_to_stop(seen: Seen, model: ServedModel, name: str) -> bool:
    """Whether what runs of a model on a node is not the plan's, and does not wait for its turn."""
    # What serves alone for a cluster is no rank, whatever it was started from.
    is_older = bool(seen.look(name)["alone"]) or _is_older(seen, model, name)
    return is_older and not waits_for_its_turn(seen, model, name)


def _without_service(seen: Seen, unit: str, name: str, *, served: bool = True) -> Actions:
    """What the stop of an engine that `served` comes to, where no other one of its model serves on."""
    return (ServiceStops(),) if served and not _another_serves(seen, unit, name) else ()


def _another_serves(seen: Seen, unit: str, name: str) -> bool:
    """Whether an engine of the same model, which has no part on this node, serves on meanwhile."""
    model = next((each for each in seen.plan.models if each.unit == unit), None)
    if not model or seen.is_dry:
        return False
    own = {each.name for each in model.ranks(model.on(name))} if model.lies_on(name) else {name}
    return any(_stays(seen, model.engine_on(other), other) for other in model.endpoints if other not in own)


def _stays(seen: Seen, model: ServedModel, name: str) -> bool:
    """Whether what runs of a model on a node serves, and is not stopped before another engine does."""
    found = seen.look(name)
    if not found["alone"] and is_running(found, model.unit) and not _is_older(seen, model, name):
        return seen.is_live(model, name)
    return waits_for_its_turn(seen, model, name)


def _is_stale(seen: Seen, model: ServedModel, name: str) -> bool:
    """Whether a rank of the engine that answers on a node is not the plan's."""
    return any(_is_older(seen, model, each.name) for each in model.ranks(model.on(name)))


def _is_older(seen: Seen, model: ServedModel, name: str) -> bool:
    return is_stale(seen.look(name), seen.plan.of(name).container(model.unit))


def _placed(seen: Seen, model: ServedModel, name: str) -> Actions:
    service = seen.plan.of(name).container(model.unit)
    return place(service, out_of_place(service, seen.look(name)["files"]))
