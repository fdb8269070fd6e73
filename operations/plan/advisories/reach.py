"""Whether this deployment can be reached by a hole: conditions in files/holes/reach.json, evaluated over the plan.

An entry says `who` has to be there, and `when` it can matter: all conditions of it have to hold. An advisory without an
entry has not been judged, and counts as reachable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from packaging.specifiers import SpecifierSet

from operations.plan.advisories.advisory import REACH, number
from operations.plan.config.knobs import Knobs
from operations.plan.recipes.recipe import Recipe
from operations.wire.holes import Judgement, ReachTable

#: Who has to be there, in words.
WHO = {
    "client": "a client with a key",
    "office": "anybody on the network of the proxy",
    "fabric": "anybody on the fabric",
    "network": "anybody who reaches a node, on any of its networks",
    "model": "a malicious model or recipe",
    "image": "a malicious image",
    "local": "a user of a node",
}
#: Flags that leave a model no input but text.
_TEXT_FLAGS = ("language-model-only",)


@dataclass(frozen=True)
class Situation:
    """What the conditions are asked of: the plan's recipe and knobs, and the version of the part with the hole."""

    recipe: Recipe
    knobs: Knobs
    version: str = ""


@dataclass(frozen=True)
class Reach:
    """The judgement: `why` names who can do it, or what stands in the way."""

    possible: bool
    why: str


def judge(name: str, of: Situation) -> Reach:
    """Whether, and why. Raises ValueError for an entry that says what no condition is."""
    entry = _judged().get(name)
    if entry is None:
        return Reach(True, "not judged yet for this layout, so it counts")
    who = entry["who"]
    obstacle = _obstacle(entry.get("when", {}), of) or _obstacle(_IMPLIED.get(who, {}), of)
    return Reach(not obstacle, obstacle or WHO[who])


def _obstacle(when: Mapping[str, Any], of: Situation) -> str:
    """Why a set of conditions does not hold, in words; empty: it holds."""
    for name, wanted in when.items():
        if name not in CONDITIONS:
            raise ValueError(f"{REACH.name}: no condition is named `{name}`; one of: {', '.join(CONDITIONS)}")
        if why := CONDITIONS[name](wanted, of):
            return why
    return ""


def _topology(wanted: list[str], of: Situation) -> str:
    found = {of.knobs.topology, of.knobs.of_an_engine.topology}
    return "" if found & set(wanted) else f"topology={of.knobs.topology}"


def _executor(wanted: str, of: Situation) -> str:
    return "" if of.knobs.executor == wanted else f"executor={of.knobs.executor}"


def _beyond_loopback(_: bool, of: Situation) -> str:
    inside = of.knobs.proxy_bind in ("loopback", "127.0.0.1") and not of.knobs.proxy_address
    return "the proxy listens on loopback alone" if inside else ""


def _flag(wanted: list[str], of: Situation) -> str:
    return "" if any(_is_set(name, of) for name in wanted) else f"the recipe has no {' or '.join(wanted)}"


def _flag_is(wanted: Mapping[str, list[str]], of: Situation) -> str:
    hit = any(str(of.recipe.flag(name)) in values for name, values in wanted.items())
    return "" if hit else "the recipe has no " + " or ".join(f"{name} {'/'.join(wanted[name])}" for name in wanted)


def _flag_has(wanted: Mapping[str, str], of: Situation) -> str:
    hit = any(part in str(of.recipe.flag(name) or "") for name, part in wanted.items())
    return "" if hit else "the recipe has no " + " or ".join(f"{part} in {name}" for name, part in wanted.items())


def _env(wanted: list[str], of: Situation) -> str:
    hit = any(of.recipe.env.get(name, of.recipe.exports.get(name)) for name in wanted)
    return "" if hit else f"the recipe sets no {' or '.join(wanted)}"


def _online(_: bool, of: Situation) -> str:
    offline = of.recipe.env.get("HF_HUB_OFFLINE", "1").lower() in ("1", "true", "yes", "on")
    return "the engine is offline (HF_HUB_OFFLINE=1): it fetches nothing" if offline else ""


def _inputs(_: str, of: Situation) -> str:
    repo, table = of.recipe.model.repo, _table()
    if any(_is_set(name, of) for name in _TEXT_FLAGS):
        return "the recipe lets the model read text alone"
    media = any(fnmatchcase(repo.lower(), each) for each in table["media"])
    text = any(fnmatchcase(repo.lower(), each) for each in table["text_only"])
    return "the model reads text alone" if text and not media else ""


def _model(wanted: list[str], of: Situation) -> str:
    hit = any(fnmatchcase(of.recipe.model.repo.lower(), each) for each in wanted)
    return "" if hit else f"the model is none of {', '.join(each.strip('*') for each in wanted)}"


def _gpu(_: bool, of: Situation) -> str:
    return "" if of.recipe.needs.gpu else "the recipe uses no GPU"


def _version(wanted: Mapping[str, str], of: Situation) -> str:
    at = number(of.version)
    return "" if at is None or SpecifierSet(wanted["is"], prereleases=True).contains(at) else wanted["else"]


def _any(wanted: list[Mapping[str, Any]], of: Situation) -> str:
    obstacles = [_obstacle(each, of) for each in wanted]
    return "" if not all(obstacles) else "; ".join(dict.fromkeys(obstacles))


def _never(wanted: str, _: Situation) -> str:
    return wanted


def _is_set(name: str, of: Situation) -> bool:
    said = of.recipe.flag(name)
    if said is None and of.recipe.config:
        said = of.recipe.config.get(name.replace("-", "_"))
    return said is not None and str(said).lower() not in ("false", "none", "")


#: name -> (what is wanted, situation) -> why it does not hold; empty: it holds.
CONDITIONS: dict[str, Callable[[Any, Situation], str]] = {
    "topology": _topology,
    "executor": _executor,
    "beyond_loopback": _beyond_loopback,
    "flag": _flag,
    "flag_is": _flag_is,
    "flag_has": _flag_has,
    "env": _env,
    "online": _online,
    "inputs": _inputs,
    "model": _model,
    "gpu": _gpu,
    "version": _version,
    "any": _any,
    "never": _never,
}
#: What each `who` needs besides.
_IMPLIED: dict[str, Mapping[str, Any]] = {
    "office": {"beyond_loopback": True},
    "fabric": {"topology": ["cluster", "replicas"]},
}


@cache
def _table() -> ReachTable:
    found: ReachTable = json.loads(REACH.read_text())
    return found


def _judged() -> dict[str, Judgement]:
    return _table()["judged"]
