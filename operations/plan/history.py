"""A plan as it is remembered when it has served, and read back for a rollback.

Recipes, knobs and images come back as they were: the images by their content, from where they lie, whatever has become
of a Dockerfile, a mod or an archive. Files are rendered anew by the Tandem that goes back; where they are not what
served, that is said.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, cast

from pydantic import ValidationError

from operations.paths import ENGINE
from operations.plan.config.files import File
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.declared import Declared, declared_model, knobs_of_models
from operations.plan.plan import NodePlan, Plan
from operations.plan.recipes.images import by_content, engine_image, needed, proxy_image
from operations.plan.recipes.recipe import TOLD, Recipe
from operations.plan.services.service import Service
from operations.wire import Json
from operations.wire.plans import KeptService, Served

#: Knobs that say nothing about what is served.
_NOT_SERVED = frozenset({"rollback", "accept_risk", "alarms", "monitoring_days", "monitoring_gib", "prove"})
_REMEDY = "declare in group_data/all.py what you want, `tandem apply`"

#: Local name of an image -> hash of its content, of those that are on the head.
Contents = Mapping[str, str]


@dataclass(frozen=True)
class Kept:
    """An image of a plan: its local name, and its content; empty: it is not there, or was not recorded."""

    local: str
    content: str = ""


@dataclass(frozen=True)
class Wanted:
    """What can be gone back to, and is compared with it: knobs, recipes by model, images by role."""

    knobs: Knobs
    recipes: Mapping[str, Recipe]
    images: Mapping[str, Kept]

    @property
    def served(self) -> Json:
        """As JSON, without what makes no difference to who asks the engine; a remark may be worded anew."""
        knobs = self.knobs.model_dump(mode="json", exclude=set(_NOT_SERVED))
        return {"knobs": knobs, **_recipes(self.recipes, {"kept_images", "remarks", *TOLD})}


def _recipes(of: Mapping[str, Recipe], but: set[str]) -> Json:
    """As JSON: the only one, or the first one and all by their models' names."""
    told = {name: recipe.model_dump(mode="json", exclude=but) for name, recipe in of.items()}
    first = next(iter(told.values()))
    return {"recipe": first} if list(told) == [""] else {"recipe": first, "recipes": told}


def role_of(name: str) -> str:
    """Under which name the image of a model's engine is kept."""
    return f"engine-{name}" if name else "engine"


def declared(of: Declared, contents: Contents) -> Wanted:
    """What the knobs say now. Raises Refusal for an image whose source is not there."""
    images = {role_of(each.name): engine_image(each.recipe, each.knobs) for each in of.models}
    images["proxy"] = proxy_image(of.first.recipe, of.knobs)
    kept = {role: Kept(each.local, contents.get(each.local, "")) for role, each in images.items()}
    return Wanted(of.knobs, {each.name: each.recipe for each in of.models}, kept)


def record(plan: Plan, contents: Contents) -> Served:
    """What a node keeps. `id` is a hash over everything, `way` over what a rollback can bring back."""
    wanted = declared(plan.declared, contents)
    told = {
        # Whom alarms are sent to may be known to nobody else, and this goes to all nodes.
        "knobs": wanted.knobs.model_dump(mode="json", exclude={"alarms"}),
        **_recipes(wanted.recipes, {"kept_images"}),
        "serves": {role: {"local": kept.local, "content": kept.content} for role, kept in wanted.images.items()},
        "services": {each.node.name: _services(each) for each in plan.nodes},
    }
    images = [kept.content or kept.local for kept in wanted.images.values()]
    names = [by_content(kept.local, kept.content) for kept in wanted.images.values() if kept.content]
    found = {
        "id": _hash({**told, **wanted.served}),
        "way": _hash({**wanted.served, "images": images}),
        **told,
        # All that `tandem prune` must leave.
        "images": [*needed(plan.declared.pairs), *names],
    }
    return cast("Served", found)


def _services(planned: NodePlan) -> dict[str, KeptService]:
    """unit -> its spec, and hashes of its files, in which neither the spec nor the image's name makes a difference."""
    found: dict[str, KeptService] = {}
    for unit, service in planned.services.items():
        if service:
            image = [service.image.local.rpartition(":")[2]] if isinstance(service, Service) else []
            found[unit] = {"spec": service.spec, "files": _hashes(service.files, service.spec, *image)}
    if planned.fabric:
        found["fabric"] = {"files": _hashes(planned.fabric)}
    return found


def _hashes(files: Iterable[File], *but: str) -> dict[str, str]:
    """path -> hash of mode and content, from which some words are taken out."""
    found = {}
    for file in files:
        content = file.content
        for word in but:
            content = content.replace(word, "")
        found[file.path] = _hash([file.mode, content])
    return found


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def changed(remembered: Served, plan: Plan) -> list[str]:
    """Files that are rendered otherwise than when the plan served, as `unit: names`; nothing for an older record."""
    lines: dict[str, set[str]] = {}
    for name, units in remembered.get("services", {}).items():
        now = next((_services(each) for each in plan.nodes if each.node.name == name), units)
        for unit in {*units, *now}:
            old, new = (side[unit].get("files", {}) if unit in side else {} for side in (units, now))
            names = {PurePosixPath(path).name for path in {*old, *new} if old.get(path) != new.get(path)}
            lines.setdefault(unit, set()).update(names)
    return [f"{unit}: {', '.join(sorted(names))}" for unit, names in sorted(lines.items()) if names]


def title(plan: Served) -> str:
    """A remembered plan, for people; with the newer ones that can't be read, where `previous` has found it."""
    knobs = plan["knobs"]
    what = f"{knobs.get('recipe', '?')}, {knobs.get('topology', '?')}"
    if models := plan.get("recipes"):
        what = f"the models {', '.join(models)}"
    text = f"{what}, which served on {plan.get('when', '?')}"
    passed = plan.get("passed_over", [])
    return f"{text} (passed over, as it can't be read: {'; '.join(passed)})" if passed else text


def topology(plan: Served, head: str) -> str:
    """How the nodes of a remembered plan depend on each other, as plan.as_a_whole has it; empty: it does not say."""
    if not plan.get("recipes"):
        return str(plan["knobs"].get("topology", ""))
    units = plan.get("services", {})
    serving = [name for name, its in units.items() if any(unit.startswith(ENGINE) for unit in its)]
    return "solo" if serving == [head] else "replicas" if serving else ""


def previous(plans: Sequence[Served], now: Wanted | None, contents: Contents) -> Served | None:
    """The plan to go back to: the newest that is not what is wanted now (None: which can't be read); None: there is
    none. One that can't be read is passed over, and named in `passed_over` of the plan that is found instead; where
    there is none, it is what comes back, and `restore` says why it can't be.
    """
    unreadable: list[Served] = []
    for plan in reversed(plans):
        if not _is_readable(plan, now):
            unreadable.append(plan)
        elif now is None or not is_same(plan, now, contents):
            return {**plan, "passed_over": [title(each) for each in unreadable]} if unreadable else plan
    return next(iter(unreadable), None)


def _is_readable(plan: Served, now: Wanted | None) -> bool:
    """Knobs that the plan does not know can come from the inventory, whose other knobs may be what can't be read."""
    try:
        recipes_of(plan)
        _knobs(plan, now.knobs.model_dump() if now else {})
    except ValidationError:
        return False
    return True


def is_same(plan: Served, now: Wanted, contents: Contents) -> bool:
    """Whether going back to a remembered plan would bring what is wanted now."""
    try:
        knobs, recipes = _read(plan, now.knobs.model_dump())
    except Refusal:
        return False
    if Wanted(knobs, recipes, {}).served != now.served:
        return False
    return all(_is_the_same(kept, now.images[role], contents) for role, kept in _images(plan).items())


def _is_the_same(kept: Kept, mine: Kept, contents: Contents) -> bool:
    """Whether an image is the one that is declared: by content where it is still there, else by its local name.

    The name is a hash of what the image is made from.
    """
    if kept.content and _place(kept, contents):
        return mine.content == kept.content
    return mine.local == kept.local


def restore(plan: Served, data: Mapping[str, Any], contents: Contents) -> Declared:
    """Knobs and recipes of a remembered plan, with its images as they lie on the head; knobs that it does not know are
    those of `data`.

    Raises Refusal for a plan that this Tandem can't read any more, and for an image that is gone and whose source is
    another one now.
    """
    knobs, recipes = _read(plan, data)
    own = knobs_of_models(knobs, knobs.model_dump()) if knobs.models else {"": knobs}
    of = Declared(
        knobs,
        tuple(declared_model(name, own[name], recipe, knobs.models.get(name, {})) for name, recipe in recipes.items()),
    )
    places, gone = {}, []
    for role, kept in _images(plan).items():
        if place := _place(kept, contents):
            places[role] = place
        elif kept.local in contents or _from_source(role, of) != kept.local:
            why = "another one has its name" if kept.local in contents else "its source is not what it was then"
            problem = f"the {role}'s image of {title(plan)} ({kept.local}) is not on the head any more, and {why}"
            gone.append(Finding("rollback", problem, _REMEDY))
    if gone:
        raise Refusal(*gone)
    models = []
    for each in of.models:
        roles = {"engine": role_of(each.name), "proxy": "proxy"}
        kept_images = {role: places[at] for role, at in roles.items() if at in places}
        models.append(replace(each, recipe=each.recipe.model_copy(update={"kept_images": kept_images})))
    return replace(of, models=tuple(models))


def _place(kept: Kept, contents: Contents) -> str:
    """The local name under which an image is there; empty: it is not."""
    if kept.local in contents and kept.content in ("", contents[kept.local]):
        return kept.local
    other = by_content(kept.local, kept.content) if kept.content else ""
    return other if other and contents.get(other) == kept.content else ""


def _from_source(role: str, of: Declared) -> str:
    """The local name of what the plan's source would give now; empty: nothing."""
    try:
        return declared(of, {}).images[role].local
    except (Refusal, OSError):
        return ""


def _images(plan: Served) -> dict[str, Kept]:
    """Images of a remembered plan by role; an older Tandem has recorded their names alone, the engine's first."""
    if "serves" in plan:
        return {role: Kept(**each) for role, each in plan["serves"].items()}
    return {"engine": Kept(plan["images"][0]), "proxy": Kept(plan["images"][-1])}


def recipes_of(plan: Served) -> dict[str, Recipe]:
    """By the names of their models, in the owner's order. Raises ValidationError where they can't be read any more."""
    return {name: Recipe.model_validate(each) for name, each in plan.get("recipes", {"": plan["recipe"]}).items()}


def _read(plan: Served, data: Mapping[str, Any]) -> tuple[Knobs, dict[str, Recipe]]:
    try:
        return _knobs(plan, data), recipes_of(plan)
    except ValidationError as error:
        fault = error.errors()[0]
        problem = f"the plan {title(plan)} can't be read: {'.'.join(map(str, fault['loc']))}: {fault['msg']}"
        raise Refusal(Finding("rollback", problem, _REMEDY)) from None


def _knobs(plan: Served, data: Mapping[str, Any]) -> Knobs:
    # One of before there were several models has had one, and one that does not know of stages or groups has
    # served with one of each.
    kept = {name: value for name, value in plan["knobs"].items() if name != "alarms"}
    values = {"alarms": (), **data, "models": {}, "pipeline_parallel": 1, "nodes_per_replica": 1, **kept}
    return Knobs(**{name: value for name, value in values.items() if name in Knobs.model_fields})
