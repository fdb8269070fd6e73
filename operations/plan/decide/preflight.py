"""What stands against a deploy before its first change, and what is only remarked on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from operations.plan import node_kinds as kinds
from operations.plan.absence import Absence
from operations.plan.checks import check_survey, strangers
from operations.plan.cluster.nodes import Node
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.kind import Kind
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding, Remark, coded
from operations.plan.declared import Declared, DeclaredModel
from operations.plan.plan import as_a_whole
from operations.plan.ranks import check_model
from operations.plan.recipes import mods
from operations.plan.recipes.images import engine_image
from operations.plan.recipes.recipe import Recipe
from operations.plan.services.demand import is_serving
from operations.wire.look import Survey


@dataclass(frozen=True)
class Notice:
    """Something that is said, and stops nothing."""

    problem: str


@dataclass(frozen=True)
class Verdict:
    """A deploy is refused for its findings, and says its remarks."""

    findings: tuple[Finding, ...] = ()
    remarks: tuple[Notice, ...] = ()

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict((*self.findings, *other.findings), (*self.remarks, *other.remarks))


def inventory(names: Sequence[str], limited: Sequence[str], absent: Mapping[str, Absence]) -> Verdict:
    """Before anything is read. `limited`: nodes that --limit leaves out; `absent`: those that do not answer."""
    if limited:
        remedy = "a plan is for all nodes: leave out --limit"
        return Verdict(tuple(Finding(name, "is not connected", remedy) for name in limited))
    # The head's data and its disk are where everything begins.
    return Verdict(tuple(_needed(each) for each in absent.values()) if names[0] in absent else ())


def absences(declared: Declared, names: Sequence[str], absent: Mapping[str, Absence]) -> Verdict:
    """Nodes that do not answer, and that the plan can't do without, or can."""
    needed = declared.serving(names)
    # Several models do not become one engine on the head by a topology.
    alone = None if as_a_whole(declared, names).models else declared.first.recipe
    missed = tuple(_needed(each, alone, names[0]) for each in absent.values() if each.name in needed)
    remarks = (
        Notice(
            coded(
                f"{absence.name} {absence.why}: this plan needs nothing of it; what an older plan has left there stays "
                "until a deploy finds it",
                absence.code,
            )
        )
        for absence in absent.values()
    )
    return Verdict(missed, () if missed else tuple(remarks))


def words(declared: Declared, knobs: Knobs) -> Verdict:
    """Mods that are not here, and knobs that are no mistake and have something against them."""
    found = [each for recipe, own in declared.pairs for each in mods.findings(engine_image(recipe, own).mods)]
    if found or knobs.routing != "least-busy":
        return Verdict(tuple(found))
    remark = Notice(
        "routing=least-busy: LiteLLM chooses an engine before it counts the request, and ties go to the first; a burst "
        "lands on one engine (measured: 64 of 64). balanced, the default, does not"
    )
    return Verdict(remarks=(remark,))


def recipes(told: Iterable[tuple[str, Sequence[Remark]]]) -> Verdict:
    """What the lint has told of each recipe, by its name. Two models may share one, and each has its own knobs."""
    pairs = [(name, remark) for name, remarks in told for remark in remarks]
    errors = (Finding(name, each.problem, each.remedy) for name, each in pairs if each.error)
    return Verdict(
        tuple(errors), tuple(dict.fromkeys(Notice(f"{name}: {each}") for name, each in pairs if not each.error))
    )


def surveys(nodes: Sequence[Node], told: Mapping[str, Survey], models: Sequence[ServedModel], knobs: Knobs) -> Verdict:
    """What is remarked on in the surveys (`told`, by node), and what stops nothing."""
    lines = [line for name, survey in told.items() for line in _remarks(name, survey)]
    lines += [line for name, survey in told.items() for line in _shut(name, survey, knobs)]
    clusters = [model for model in models if model.knobs.of_an_engine.topology == "cluster"]
    in_clusters = {node.name for model in clusters for node in model.nodes}
    lines += [
        _noted(kinds.NO_CGROUPS, node.name) for node in nodes if node.name in in_clusters and not node.engine_group
    ]
    return Verdict(remarks=tuple(lines))


def _remarks(name: str, survey: Survey) -> Iterator[Notice]:
    for place in survey.get("foreign", []):
        yield _noted(kinds.FOREIGN_FILES, name, place=place)
    for problem, remedy, code in strangers(survey) if survey.get("sudo") and is_serving(survey) else ():
        yield Notice(coded(f"{name}: {problem}: the engine would not start again beside it; {remedy}", code))
    if survey.get("cdi") and survey["software"].get("nvidia-container-toolkit") == "1.19.1":
        yield _noted(kinds.CDI_FREEZES, name)


def _shut(name: str, survey: Survey, knobs: Knobs) -> Iterator[Notice]:
    for each in survey.get("shut", []):
        if each["is_door"]:
            data = {"by": each["by"], "peer": each["peer"].partition("/")[0], "device": each["device"]}
            yield _noted(kinds.PROXY_SHUT, name, port=knobs.proxy_port, remedy=each["remedy"], **data)


def _noted(kind: Kind, name: str, /, **data: object) -> Notice:
    problem, remedy, code = kind.said(**data)
    return Notice(coded(f"{name}: {problem}: {remedy}", code))


def models_as_they_are(declared: Declared, models: Sequence[ServedModel], head: Survey) -> Verdict:
    """Models without a revision, and those that their nodes can't share. `head`: its survey."""
    found = [each for model in declared.models for each in _unpinned(model, head)]
    for model in (each.engines[0] for each in models):
        layout = head.get("layout", {}).get(model.recipe.model.key, {})
        found += check_model(model.recipe, model.knobs, len(model.nodes), layout)
    return Verdict(tuple(found))


def machines(
    nodes: Sequence[Node], told: Mapping[str, Survey], models: Sequence[ServedModel], knobs: Knobs, count: int
) -> Verdict:
    """What the nodes lack. `count`: nodes of the inventory, those that do not answer among them."""
    head = told[nodes[0].name]
    return Verdict(
        tuple(each for node in nodes for each in check_survey(node, told[node.name], head, models, knobs, count))
    )


def slots(told: Iterable[Survey]) -> dict[str, int]:
    """Which ports models have already, by the first node that says so."""
    found: dict[str, int] = {}
    for survey in told:
        for name, slot in survey.get("state", {}).get("slots", {}).items():
            found.setdefault(name, slot)
    return found


def _needed(absence: Absence, recipe: Recipe | None = None, head: str = "") -> Finding:
    """A node that the plan can't do without; where the recipe can do with the head alone, that is said."""
    remedy = f"{absence.remedy}; or take it out of the inventory"
    if recipe and head and "solo" in recipe.topologies:
        remedy += f"; topology=solo serves on {head} alone"
    return Finding(absence.name, absence.why, remedy, absence.code)


def _unpinned(of: DeclaredModel, head: Survey) -> Iterator[Finding]:
    """A revision has to be named: what is called main today is another model tomorrow. Each of several
    models names its own: two recipes have two commits.
    """
    recipe, main = of.recipe, head.get("main", {})
    place = f'models["{of.name}"]' if of.name else "group_data/all.py"
    unpinned = [each for each in recipe.models if each.revision is None]
    # One dictionary for all of them: the next one would take the place of the one before.
    beside = {each.repo: main[each.repo] for each in unpinned if each is not recipe.model and main.get(each.repo)}
    for model in unpinned:
        is_served = model is recipe.model
        knob = "model_revision" if is_served else "model_revisions"
        value = json.dumps(main.get(model.repo) if is_served else of.knobs.model_revisions | beside)
        said = f'"{knob}": {value}' if of.name else f"{knob} = {value}"
        remedy = f"{said} in {place} is what `main` is" if main.get(model.repo) else (
            f"set {knob} in {place} to a commit of it: its page on the Hub lists them"
        )  # fmt: skip
        yield Finding(f"models.{of.name}" if of.name else recipe.name, f"names no revision of {model.repo}", remedy)
