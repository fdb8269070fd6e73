"""`tandem recipes add` and `tandem recipes update`: repositories of other people's recipes, each pinned at a commit.

What is fetched is fetched because the owner asks for it; a later commit is taken when its changes have been shown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from operations.plan.config.plain import plain
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.recipes import repositories
from operations.plan.recipes.formats import load_file
from operations.plan.recipes.kinds import NoRecipe
from operations.plan.recipes.mod_folder import content, faults, is_mod
from operations.plan.recipes.mods import folder_of
from operations.plan.recipes.recipe import Recipe
from operations.plan.recipes.repositories import KNOWN, NAME, Registry, registries
from operations.verbs.fetch import fetch, newest, parts

#: Fields of a recipe that are compared in a way of their own, or that say nothing of what is served.
_OTHERWISE = ("name", "source", "flags", "env", "mods", "attached", "remarks", "start_mods", "description")
#: Characters of a value that are shown.
_SHOWN = 70


def add(what: str, name: str = "") -> int:
    """Fetches `URL@COMMIT`, or a registry that is known by its name, and lists it; 2 for what is none, 1 where it can't
    be fetched. `name`: the owner's for it.
    """
    return _told(lambda: _add(what, name))


def update(name: str = "", *, yes: bool = False) -> int:
    """Shows what a later commit of each registry, or of one, changes, recipe by recipe, and asks; codes as `add`'s."""
    return _told(lambda: _update(name, yes=yes))


def _told(act: Callable[[], None]) -> int:
    try:
        act()
    except Refusal as refusal:
        for finding in refusal.findings:
            print(f"{plain(finding.problem)}; {finding.remedy}", file=sys.stderr)
        return 1 if refusal.findings[0].where == "fetch" else 2
    except OSError as error:
        print(f"{error.filename} can't be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _add(what: str, name: str) -> None:
    if what.partition("@")[0] in KNOWN:
        known, _, commit = what.partition("@")
        name, url = name or known, KNOWN[known]
    elif "/" not in what:
        known_names = f"known by name: {', '.join(KNOWN)}"
        raise _refused(f"`{what}` is no registry", f"write https://HOST/OWNER/NAME@COMMIT; {known_names}")
    else:
        try:
            url, commit = parts(what)
        except Refusal as refusal:
            # Nothing has been fetched yet.
            raise _refused(refusal.findings[0].problem, refusal.findings[0].remedy) from None
        name = name or url.rstrip("/").removesuffix(".git").rpartition("/")[2]
    if not NAME.fullmatch(name):
        raise _refused(
            f"`{name}` is no name for a registry", "give it one of letters, digits, dots and dashes: `--as NAME`"
        )
    listed = registries()
    own = next((each for each in listed if each.name == name), None)
    if own and (own.url != url or commit not in ("", own.commit)):
        remedy = f"`tandem recipes update {name}` takes its newest commit"
        remedy = remedy if own.url == url else "give this one another name: `--as NAME`"
        raise _refused(f"`{name}` is a registry already: {own.url}@{own.commit}", remedy)
    registry = own or Registry(name, url, commit or newest(url))
    fetch(f"{registry.url}@{registry.commit}")
    if not own:
        repositories.write([*listed, registry])
    print(f"@{name} is {registry.url} at {registry.commit}, {len(_recipes(registry))} recipes, in {registry.place}")
    print(f"`tandem recipes --dir @{name}` judges them, `tandem recipes NAME` finds one")


def _update(name: str, *, yes: bool) -> None:
    listed = registries()
    if not listed:
        raise _refused("there is no registry yet", f"`tandem recipes add NAME`: {', '.join(KNOWN)}, or URL@COMMIT")
    if name and name not in [each.name for each in listed]:
        raise _refused(f"`{name}` is no registry here", f"added are: {', '.join(each.name for each in listed)}")
    for registry in [each for each in listed if name in ("", each.name)]:
        later = Registry(registry.name, registry.url, newest(registry.url))
        if later.commit == registry.commit:
            print(f"@{registry.name}: nothing new, {registry.commit}")
            continue
        fetch(f"{later.url}@{later.commit}")
        print(f"@{registry.name}: {registry.commit} -> {later.commit}")
        fetch(f"{registry.url}@{registry.commit}")
        for line in changes(registry, later):
            print(f"  {line}")
        if yes or _asked(f"Take it for @{registry.name}? [y/N] "):
            repositories.write([later if each.name == later.name else each for each in registries()])
            print(f"@{registry.name} is at {later.commit}; what is deployed stays as it is")
        else:
            print(f"@{registry.name} stays; `tandem recipes update {registry.name} --yes` takes it")


def _asked(question: str) -> bool:
    if not sys.stdin.isatty():
        return False
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def changes(before: Registry, after: Registry) -> Iterator[str]:
    """What is otherwise in a later commit, a line for each recipe; one line where nothing is."""
    old, new = _recipes(before), _recipes(after)
    lines = [f"new: {name}" for name in sorted(new.keys() - old.keys())]
    lines += [f"gone: {name}" for name in sorted(old.keys() - new.keys())]
    for name in sorted(old.keys() & new.keys()):
        if said := "; ".join(_between(old[name], new[name])):
            lines.append(f"changed: {name}: {said}")
    yield from map(plain, lines or ["no recipe is otherwise"])


def _recipes(registry: Registry) -> dict[str, Recipe | str]:
    """Each as it loads, or why it does not; what is no recipe is left out."""
    found: dict[str, Recipe | str] = {}
    for name, file in registry.recipes().items():
        try:
            found[name] = load_file(file)
        except NoRecipe:
            continue
        except Refusal as refusal:
            found[name] = refusal.findings[0].problem
    return found


def _between(old: Recipe | str, new: Recipe | str) -> Iterator[str]:
    if isinstance(old, str) or isinstance(new, str):
        if isinstance(new, str) and old != new:
            yield f"refused: {_short(new)}"
        elif isinstance(old, str) and not isinstance(new, str):
            yield "it loads now"
        return
    for field in Recipe.model_fields:
        if field not in _OTHERWISE and getattr(old, field) != getattr(new, field):
            yield f"{field} {_short(getattr(old, field))} -> {_short(getattr(new, field))}"
    flags = [{each.name: " ".join(each.words) for each in recipe.flags} for recipe in (old, new)]
    for title, (was, now) in (("", flags), ("env ", (old.env, new.env))):
        for name in [*was, *(each for each in now if each not in was)]:
            if was.get(name) != now.get(name):
                yield f"{title}{name}: {_short(was.get(name, '-'))} -> {_short(now.get(name, '-'))}"
    mods = [{folder_of(each).name: _content(folder_of(each)) for each in recipe.mods} for recipe in (old, new)]
    for name in sorted({*mods[0], *mods[1]}):
        if mods[0].get(name) != mods[1].get(name):
            yield f"mod {name}" + ("" if name in mods[0] else " is new") + ("" if name in mods[1] else " is gone")
    if old.attached != new.attached:
        yield "a file beside it"


def _content(mod: Path) -> list[tuple[str, bytes]]:
    """What a mod is compared by; nothing of one that no image may have: a link may lead to what never ends."""
    return content(mod) if is_mod(mod) and not faults(mod) else []


def _short(value: Any) -> str:
    text = (getattr(value, "revision", None) and f"{value.repo}@{value.revision}") or str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _refused(problem: str, remedy: str) -> Refusal:
    return Refusal(Finding("recipes", problem, remedy))
