"""What lies on nodes' disks, held against what plans want: who needs it, what may go, and why the rest stays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from operations.plan.config.refusal import Finding, Refusal, nearest
from operations.plan.declared import Declared
from operations.plan.recipes.images import needed
from operations.wire.disks import Kernels, Need, OnDisk, Picked, Shelf

_TAG = re.compile(r"(?:tandem/\w+:)?([0-9a-f]{12})")
#: Letters of a commit by which a revision may be named.
_SHORTEST = 4

#: What the recipe of a name needs; nothing where there is none.
Recipes = Callable[[str], list[Need]]


@dataclass(frozen=True)
class Thing:
    """One thing on one node's disks: a revision of a model, what no revision has of its repository, or the kernels that
    engines of one image have compiled (`tag`).

    `files`: bytes by the place on the disk. `who`: what needs it. `last`: seconds since 1970 when it served, 0: it is
    not known, and `when`: when the newest remembered plan with it has. `stays`: why prune leaves it; empty: it may go.
    """

    node: str
    title: str
    picked: Picked
    files: Mapping[str, int] = field(hash=False)
    state: str
    who: tuple[str, ...] = ()
    last: float = 0.0
    when: str = ""
    busy: tuple[str, ...] = ()
    is_pinned: bool = False
    stays: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes, those that other models have too included."""
        return sum(self.files.values())

    @property
    def repo(self) -> str:
        """ORG/NAME of a model; empty for kernels."""
        return self.picked["folder"].removeprefix("models--").replace("--", "/")

    @property
    def serves(self) -> bool:
        """Whether a unit of Tandem's uses it now."""
        return any(why.startswith("tandem-") for why in self.busy)

    @property
    def key(self) -> str:
        """By what it is known from one look at a node to the next."""
        return self.picked["tag"] or f"{self.picked['folder']}@{self.picked['revision']}"


def wants(of: Declared) -> list[Need]:
    """The revisions that the declared plan needs; `when` is empty."""
    return [
        {"folder": each.folder, "revision": each.revision or "", "who": model.title, "when": ""}
        for model in of.models
        for each in model.recipe.models
    ]


def tags(of: Declared, shelves: Iterable[Shelf]) -> set[str]:
    """Tags of the images that the declared plan or a remembered one is made of."""
    names = [*needed(of.pairs), *(name for shelf in shelves for name in shelf["images"])]
    return {name.rpartition(":")[2] for name in names}


def things(of: Declared, shelves: Mapping[str, Shelf]) -> list[Thing]:
    """All that lies on these nodes. What one node's plan needs stays on all of them: a way back begins on the head."""
    declared = wants(of)
    # The newest of each node is last; of what two nodes remember the newer one counts.
    remembered = sorted((need for shelf in shelves.values() for need in shelf["needs"]), key=lambda need: need["when"])
    kept = tags(of, shelves.values())
    return [
        thing
        for node, shelf in shelves.items()
        for thing in (
            *(_model(node, each, declared, remembered) for each in shelf["models"]),
            *(_kernels(node, each, kept) for each in shelf["kernels"]),
        )
    ]


def _model(node: str, found: OnDisk, declared: Sequence[Need], remembered: Sequence[Need]) -> Thing:
    now = [each for each in declared if _is_for(each, found)]
    past = {each["who"]: each["when"] for each in remembered if _is_for(each, found)}
    who = [f"{name} (declared)" for name in dict.fromkeys(each["who"] for each in now)]
    who += [f"{name} (plan of {when or 'an older Tandem'})" for name, when in past.items()]
    stays = list(found["busy"])
    stays += ["it is pinned"] if found["pinned"] else []
    stays += [f"{each} needs it" for each in who]
    stays += [f"{unit} is made for it" for unit in found["units"]]
    stays += [] if found["brought"] else ["it is not known to be of Tandem's fetching: by its name it goes"]
    repo = found["folder"].removeprefix("models--").replace("--", "/")
    return Thing(
        node=node,
        title=f"{repo} {found['revision'][:12] or '(left over)'}",
        picked={"folder": found["folder"], "revision": found["revision"], "tag": ""},
        files=found["files"],
        state=_state(found),
        who=tuple(who),
        last=found["served"],
        when=max(past.values(), default=""),
        busy=tuple(found["busy"]),
        is_pinned=found["pinned"],
        stays=tuple(stays),
    )


def _is_for(need: Need, found: OnDisk) -> bool:
    """What a download has left is for whoever needs its repository: the next one goes on from there."""
    anything = not need["revision"] or not found["revision"]
    return need["folder"] == found["folder"] and (anything or need["revision"] == found["revision"])


def _state(found: OnDisk) -> str:
    if found["problems"]:
        more = f" (and {len(found['problems']) - 1} more)" if len(found["problems"]) > 1 else ""
        return f"{found['problems'][0]}{more}"
    return "whole, every byte proven" if found["whole"] == "proven" else "whole by structure"


def _kernels(node: str, found: Kernels, kept: set[str]) -> Thing:
    who = ("its image (declared, or of a plan)",) if found["tag"] in kept else ()
    stays = [*found["busy"], *(f"{each} needs it" for each in who)]
    stays += [f"{unit} is made for it" for unit in found["units"]]
    return Thing(
        node=node,
        title=f"kernels {found['tag']}",
        picked={"folder": "", "revision": "", "tag": found["tag"]},
        files={f"kernels {found['tag']}": found["bytes"]},
        state="compiled kernels",
        who=who,
        busy=tuple(found["busy"]),
        stays=tuple(stays),
    )


def freed(gone: Sequence[Thing], every: Sequence[Thing]) -> int:
    """Bytes that are free when these are gone from their nodes: what stays keeps the files that both have."""
    total = 0
    for node in {each.node for each in gone}:
        going = [each for each in gone if each.node == node]
        kept = {key for each in every if each.node == node and each not in going for key in each.files}
        files = {key: size for each in going for key, size in each.files.items()}
        total += sum(size for key, size in files.items() if key not in kept)
    return total


def named(words: Sequence[str], every: Sequence[Thing], of: Declared, recipe: Recipes) -> list[Thing]:
    """What is meant on each node. Raises Refusal for a word that means nothing here, or several models."""
    found: dict[tuple[str, str], Thing] = {}
    for word in words:
        for each in _meant(word, every, of, recipe):
            found[each.node, each.key] = each
    return list(found.values())


def _meant(word: str, every: Sequence[Thing], of: Declared, recipe: Recipes) -> list[Thing]:
    name, at, revision = word.partition("@")
    if at and not revision:
        raise Refusal(Finding("NAME", f"`{word}` names no revision", f"write {name}@COMMIT, or {name} for all of them"))
    kernels = _TAG.fullmatch(word)
    if kernels and (found := [each for each in every if each.picked["tag"] == kernels[1]]):
        return found
    models = [each for each in every if each.repo]
    repos = {each.repo for each in models if name.lower() in (each.repo.lower(), each.repo.lower().rpartition("/")[2])}
    if len(repos) > 1:
        models_here = ", ".join(sorted(repos))
        raise Refusal(Finding("NAME", f"`{word}` may be any of {models_here}", "write ORG/NAME"))
    if repos:
        # What no revision has goes with all of them.
        mine = [each for each in models if each.repo in repos and each.picked["revision"].startswith(revision)]
        if mine and (not revision or len(revision) >= _SHORTEST):
            return mine
        [repo] = repos
        there = ", ".join(sorted({each.picked["revision"] for each in models if each.repo == repo} - {""}))
        problem = f"no revision of {repo} here begins with `{revision}`"
        raise Refusal(Finding("NAME", problem, f"there are: {there or 'none'}"))
    needs = [each for each in wants(of) if each["who"] == word] or recipe(word)
    if found := [each for each in models if any(_is_wanted(need, each) for need in needs)]:
        return found
    if needs:
        raise Refusal(Finding("NAME", f"nothing of `{word}` lies on a node that answers", "`tandem models` lists all"))
    known = sorted({*(each.repo for each in models), *(each.picked["tag"] for each in every)} - {""})
    remedy = nearest(word, known, "`tandem models` lists all")
    raise Refusal(Finding("NAME", f"no node that answers has `{word}`", remedy))


def _is_wanted(need: Need, thing: Thing) -> bool:
    same = not need["revision"] or need["revision"] == thing.picked["revision"]
    return need["folder"] == thing.picked["folder"] and bool(thing.picked["revision"]) and same


def check_removal(wanted: Sequence[Thing]) -> None:
    """Refuse to take away what is in use, and what is pinned."""
    findings = []
    for each in wanted:
        if each.busy:
            problem = f"{each.title} can't be removed: {each.busy[0]}"
            remedy = "`tandem down` stops what serves, or deploy another recipe first; end other programs yourself"
            findings.append(Finding(each.node, problem, remedy))
        elif each.is_pinned:
            problem = f"{each.title} can't be removed: it is pinned"
            findings.append(Finding(each.node, problem, f"`tandem models unpin {each.repo}` first"))
    if findings:
        raise Refusal(*findings)


def approved(wanted: Sequence[Thing], shown: Mapping[str, Sequence[str]]) -> list[Thing]:
    """What the owner has seen of it, by node and key: what has come to it since is not removed unasked."""
    return [each for each in wanted if each.key in shown.get(each.node, ())]
