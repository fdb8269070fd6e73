"""The three answers: what for (or which model), who may reach it, how many people; from flags or from questions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from operations.plan.config.knobs import Knobs, Topology
from operations.plan.config.refusal import Finding, Refusal, nearest
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.picks import PICKS, Pick
from operations.plan.recipes.recipe import Recipe

#: Word -> what `proxy_bind` says, and for people.
REACH = {
    "this": ("loopback", "only the Sparks themselves (by ssh from elsewhere)"),
    "home": ("management", "everybody on your home or office network who has a key"),
    "all": ("all", "every network that the Sparks are on, with a key"),
}
#: The same in other words.
_ALSO = {"office": "home", "network": "home", "lan": "home"}
#: Of so many people about one asks at a time: an answer takes seconds, and reading it minutes.
PEOPLE_AT_ONCE = 4
PEOPLE = 2
MOST_PEOPLE = 10_000


@dataclass(frozen=True)
class Answers:
    """`recipe`: its name, or a path. `pick`: the purpose that was chosen; None: a recipe was named. `reach` empty and
    `people` None: as the folder has it.
    """

    recipe: str
    pick: Pick | None
    reach: str = ""
    people: int | None = None

    @property
    def at_once(self) -> int:
        """How many may ask at the same time."""
        return max(1, math.ceil((self.people or PEOPLE) / PEOPLE_AT_ONCE))


def purpose(word: str) -> Pick:
    """Raises Refusal with the nearest."""
    for pick in PICKS:
        if word.lower() in (pick.key, pick.title.lower()):
            return pick
    keys = [pick.key for pick in PICKS]
    raise Refusal(Finding("--for", f"`{word}` is no purpose", nearest(word, keys, f"one of: {', '.join(keys)}")))


def recipe(name: str) -> Recipe:
    """One that an owner can deploy; raises Refusal."""
    found = load_recipe(name)
    if not found.needs.gpu:
        raise Refusal(Finding("--model", f"`{name}` is the lab's own", "choose one of `tandem recipes`"))
    return found


def reach(word: str) -> str:
    """A word of `REACH`. Raises Refusal with the nearest, or with what each means."""
    said = word.lower()
    if (said := _ALSO.get(said, said)) in REACH:
        return said
    choices = "; ".join(f"`{each}`: {meaning}" for each, (_, meaning) in REACH.items())
    raise Refusal(Finding("--reach", f"`{word}` is no choice", nearest(said, REACH, f"it is one of {choices}")))


def people(text: str) -> int:
    """A number of people, as they write it; raises Refusal."""
    said = text.removesuffix("people").strip()
    if said.isdecimal() and 1 <= int(said) <= MOST_PEOPLE:
        return int(said)
    raise Refusal(Finding("--people", f"`{text}` is no number of people", f"1 to {MOST_PEOPLE:,}, e.g. 4"))


def reach_of(knobs: Mapping[str, Any]) -> str:
    """The word for what a folder says already; empty: an address of the owner's own."""
    bind = knobs.get("proxy_bind", Knobs().proxy_bind)
    return next((word for word, (value, _) in REACH.items() if value == bind), "")


def fits(found: Recipe, nodes: int) -> list[Topology]:
    """The topologies that a recipe can have on so many nodes."""
    able: list[Topology] = []
    for topology in found.topologies:
        least = {"solo": 1, "replicas": 2, "cluster": max(2, found.min_nodes)}[topology]
        if nodes >= least:
            able.append(topology)
    return able


def check_fits(found: Recipe, nodes: int) -> None:
    """Raises Refusal where no topology of the recipe has enough nodes."""
    if not fits(found, nodes):
        least = max(2, found.min_nodes) if "cluster" in found.topologies else 2
        problem = f"{found.name} needs {least} Sparks, here {'is' if nodes == 1 else 'are'} {nodes}"
        raise Refusal(Finding("--model", problem, "choose another recipe, or name more Sparks"))


def pick_for(nodes: int) -> Pick:
    """What is proposed first."""
    return purpose("one-spark" if nodes == 1 else "chat")


def named(logins: Iterable[str]) -> str:
    """Names in a sentence: `a`, `a and b`, `a, b and c`."""
    names = list(logins)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
