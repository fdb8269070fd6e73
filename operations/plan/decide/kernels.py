"""Whose kernels a node may have: of the same image by content, the same plan of it, and the same processor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from operations.plan.cluster.served_model import ServedModel
from operations.plan.decide.seen import Seen
from operations.plan.decide.unit_state import has_container, is_running
from operations.plan.services import kept_kernels
from operations.wire.kernels import Made
from operations.wire.look import Look


@dataclass(frozen=True)
class Lacking:
    """A node lacks its engine's kernels. `source` is a node that has them; empty: none has. `begins`: a node that has
    none at all may begin with those of another plan of its own.
    """

    place: str
    made: Made
    source: str
    begins: bool


def made_for(look: Look, model: ServedModel) -> Made | None:
    """For what a start of the engine on a node would compile; None: nobody knows."""
    image = look["images"].get(model.image.local)
    content = image["image"].get("content", "") if image else ""
    processor = look["kernels"]["gpu" if model.recipe.needs.gpu else "cpu"]
    return {"content": content, "processor": processor} if content and processor else None


def lacking(seen: Seen, model: ServedModel, name: str) -> Lacking | None:
    """What is to be done before the engine's start on a node; None: nothing, or nothing can be.

    The head is asked first: as a rule it is at rest, and it is one cable away from every node.
    """
    found = seen.look(name)
    place, made = kept_kernels.place_of(model), made_for(found, model)
    if not made or not kept_kernels.paths_of(model) or has(found, place, made):
        return None
    others = (each.node.name for each in seen.plan.serving if each.node.name != name)
    source = next((each for each in others if has(seen.look(each), place, made)), "")
    tag, here = place.partition("/")[0], found["kernels"]["kept"]
    begins = place not in here and any(each.startswith(f"{tag}/") and has(found, each, made) for each in here)
    return Lacking(place, made, source, begins) if source or begins else None


def has(look: Look, place: str, made: Made) -> bool:
    """Whether a node has kernels for this with which a start has served."""
    known = look["kernels"]["kept"].get(place)
    return bool(known and known["proven"] and known["made"] == made)


def to_list(
    seen: Seen, models: Sequence[ServedModel], name: str, is_started: Callable[[ServedModel], bool]
) -> dict[str, list[str]]:
    """Places on a node whose kernels are to be listed now that engines of these `models` have served, each with what
    can be handed on. Those that are listed are so again where this run has started their engine (`is_started`).
    """
    kept = seen.look(name)["kernels"]["kept"] if models else {}
    found = {}
    for model in models:
        place, paths = kept_kernels.place_of(model), kept_kernels.paths_of(model)
        is_new = place in kept and (is_started(model) or not kept[place]["proven"])
        if paths and is_new and (not model.is_on_demand or _serves(seen, model, name)):
            found[place] = paths
    return found


def _serves(seen: Seen, model: ServedModel, name: str) -> bool:
    """Whether an engine that no deploy waits for serves by now. One that loads has compiled a part."""
    found = seen.look(name)
    return is_running(found, model.unit) and has_container(found, model.unit) and seen.is_live(model, name)
