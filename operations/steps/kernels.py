"""What engines have compiled: handed on before a start, listed after it has served."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.node.kernels import kept
from operations.plan.cluster.served_model import ServedModel
from operations.plan.decide import kernels as decide
from operations.plan.services import kept_kernels
from operations.runner.carrying_out import seen
from operations.runner.patience import python_step
from operations.runner.remote import ask_or_none
from operations.runner.run import Run, step
from operations.wire.kernels import CHANGED, Made


@step
def hand_on(run: Run) -> Iterator[PyinfraCommand]:
    """To nodes that have none of the plan's yet, from one that has, while the old engines serve."""
    yield from _handed(run, run.plan.on(host.name))


@step
def follow(run: Run, model: ServedModel, turn: str) -> Iterator[PyinfraCommand]:
    """The same, right before the engine of `turn` is renewed. An engine renewed earlier has compiled everything by
    then.
    """
    if not state.is_executing or host.name not in [each.name for each in model.ranks(model.on(turn))]:
        host.noop(f"it is the turn of {turn}")
        return
    for other in (each for each in model.endpoints if run.started.is_proven(model, each)):
        for rank in model.ranks(model.on(other)):
            where = run.node(rank.name)
            here = (model.engine_on(rank.name),)
            if listed := decide.to_list(seen(run), here, rank.name, partial(_is_started, run, rank.name)):
                ask_or_none(where, kept.keep, listed, bound=False)
                run.looks.forget()
    yield from _handed(run, (model.engine_on(host.name),))


@step
def listed(run: Run) -> Iterator[PyinfraCommand]:
    """On every node: its engines serve with these, so others may have them. The oldest go where there are too many."""
    here = run.plan.on(host.name) if state.is_executing else ()
    if found := decide.to_list(seen(run), here, host.name, partial(_is_started, run, host.name)):
        yield python_step(partial(_list, run, found))
    else:
        host.noop("are listed, or none are kept")


def _is_started(run: Run, name: str, model: ServedModel) -> bool:
    return run.started.is_proven(model, model.ranks(model.on(name))[0].name)


def _handed(run: Run, models: tuple[ServedModel, ...]) -> Iterator[PyinfraCommand]:
    idle = True
    for model in models:
        if wanted := decide.lacking(seen(run), model, host.name):
            idle = False
            yield python_step(partial(_take, run, model, wanted))
    if idle:
        host.noop("are here, or nobody has them")


def _take(run: Run, model: ServedModel, wanted: decide.Lacking, _state: State, where: Host) -> bool:
    """A deploy does not end here: an engine without them compiles its own."""
    if wanted.source:
        source = run.plan.of(wanted.source).node
        try:
            run.copies.from_node(run.plan, source, where, "kernels", kernels=wanted.place, made=wanted.made)
            where.log(f"{model.unit}: compiled kernels are those of {source.name}")
            return True
        except (RuntimeError, OSError) as error:
            where.log(f"{error}: its engine compiles its own")
            if str(error).endswith(CHANGED):
                _mend(model, wanted.place, run.node(source.name))
    if wanted.begins:
        _begin(model, wanted.place, wanted.made, where)
    return True


def _mend(model: ServedModel, place: str, source: Host) -> None:
    """What a disk has changed would break the next start there too."""
    for each in ask_or_none(source, kept.mend, place, kept_kernels.paths_of(model)) or []:
        source.log(f"{place}/{each} has changed by itself: it is removed, and the next start compiles it anew")


def _begin(model: ServedModel, place: str, made: Made, where: Host) -> None:
    ask_or_none(where, kept.begin_with, place, made, kept_kernels.by_name(model))


def _list(run: Run, found: dict[str, list[str]], _state: State, where: Host) -> bool:
    for gone in ask_or_none(where, kept.keep, found) or []:
        where.log(f"compiled kernels {gone} are removed: there were more than {kept.ROOM >> 30} GiB of them")
    # The engine that serves alone for a cluster begins with what its ranks have compiled.
    for model in run.plan.on(where.name):
        for alone in list(kept_kernels.engines_on(model, run.plan.of(where.name).node))[1:]:
            if made := decide.made_for(run.look(where), alone):
                _begin(alone, kept_kernels.place_of(alone), made, where)
    return True
