"""`tandem recipes`, `tandem recipes [NAME] [--dir FOLDER]`: Tandem's own for who chooses one, without a node.

For another folder: what the lint says of each.
"""

from __future__ import annotations

import functools
import io
import os
import re
import signal
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from operations.plan.config.knobs import Knobs, read_knobs
from operations.plan.config.plain import plain
from operations.plan.config.refusal import Finding, Refusal, Remark, nearest
from operations.plan.recipes import mods, repositories
from operations.plan.recipes.formats import FOLDER, load_file
from operations.plan.recipes.judge import lint
from operations.plan.recipes.kinds import NoRecipe
from operations.plan.recipes.recipe import Recipe
from operations.plan.wanted import group_data
from operations.verbs import recipe_table, recipe_view
from operations.verbs.recipe_remarks import grouped

#: Seconds of computing that one recipe may take; lines that are said of it; names of a kind that are listed.
SECONDS, LINES, NAMES = 5.0, 40, 8
#: How much of a folder is looked at.
FOLDERS, FILES = 20_000, 5_000
#: What a line begins with that its rest stands behind (operations/verbs/recipe_view.py).
_NAMED = re.compile(r"  \S.{10}  |\s*")
COLUMNS = ("name", "format", "engine", "topologies", "verdict")


def main(folder: str = "", name: str = "") -> int:
    """Tandem's own for who chooses; `folder`: the recipes there, with what the lint says; `name`: one of them alone.

    2 for a folder that is none, and for a name that nobody has.
    """
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False, emoji=False)
    try:
        place = _place(folder)
    except Refusal as refusal:
        return _refused(refusal)
    if not place.is_dir():
        print(
            f"{plain(str(place))} is no folder; `tandem recipes --dir FOLDER` names one with recipes in it",
            file=sys.stderr,
        )
        return 2
    try:
        if name:
            _show(console, _file(place, name) if folder else _named(name))
            return 0
    except Refusal as refusal:
        return _refused(refusal)
    if folder:
        _judge(console, place)
        return 0
    shown = recipe_view.shown(console, recipe_table.shipped())
    for part in ("Begin with one of these:", recipe_view.picks(), recipe_view.TOGETHER, "", *shown):
        console.print(part)
    return 0


def _refused(refusal: Refusal) -> int:
    for finding in refusal.findings:
        print(f"{finding.where}: {finding.problem}; {finding.remedy}", file=sys.stderr)
    return 2


def _place(folder: str) -> Path:
    """The folder that is meant: Tandem's own, one by its path, or a registry's."""
    if not folder.startswith("@"):
        return Path(os.path.expanduser(folder) if folder else FOLDER)
    added = {each.name: each for each in repositories.registries()}
    if folder[1:] in added:
        return added[folder[1:]].place
    remedy = f"added are: {', '.join(added)}" if added else "`tandem recipes add` adds one"
    raise Refusal(Finding("recipes", f"`{folder}` is no registry here", remedy))


def _named(name: str) -> Path:
    """The file of a recipe by its name: Tandem's own, or one of the registries'; raises Refusal with the nearest."""
    own = FOLDER / f"{name}.yaml"
    found = [] if own.is_file() else [(each, file) for each, file in repositories.named(name) if _is_recipe(file)]
    if len(found) > 1:
        names = [f"@{each.name}/{file.relative_to(each.place).with_suffix('')}" for each, file in found]
        raise Refusal(Finding("recipes", f"`{name}` is in {len(found)} places", f"name one: {', '.join(names[:4])}"))
    if found:
        return found[0][1]
    try:
        return FOLDER / f"{recipe_view.named(name)}.yaml"
    except Refusal:
        listed = [(each.name, path) for each in repositories.registries() for path in each.recipes()]
        alike = [f"@{registry}/{path}" for registry, path in listed if name.lower() in path.lower()]
        if not alike:
            raise
        remedy = f"do you mean one of: {', '.join(alike[:4])}?"
        raise Refusal(Finding("recipes", f"no recipe is named `{name}`", remedy)) from None


def _is_recipe(file: Path) -> bool:
    try:
        load_file(file)
    except NoRecipe:
        return False
    except Refusal:
        return True
    return True


def _show(console: Console, file: Path) -> None:
    recipe = load_file(file)
    chosen = "" if file.parent == FOLDER else plain(str(file.absolute()))
    for line in recipe_view.one(recipe, judged(recipe)[1], chosen):
        console.print(_hanging(line, console.width) if console.is_terminal else line, soft_wrap=True)


def _hanging(line: str, width: int) -> str:
    """A line whose rest stands below its own text, behind the name of what it tells."""
    indent = " " * len(_NAMED.match(line)[0])  # type: ignore[index]
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _file(place: Path, name: str) -> Path:
    """That of a recipe in a folder, by its name there; raises Refusal with the nearest."""
    files = {str(file.relative_to(place).with_suffix("")): file for file in yaml_files(place, [])}
    alike = [each for key, each in files.items() if name in (key, each.stem, each.name)]
    if not alike:
        otherwise = f"`tandem recipes --dir {plain(str(place))}` lists them"
        raise Refusal(Finding("recipes", f"no recipe there is named `{name}`", nearest(name, files, otherwise)))
    return alike[0]


def _judge(console: Console, place: Path) -> None:
    """The table of a folder, and under it what stands in the way or should be known."""
    table = Table(*COLUMNS, box=None, pad_edge=False)
    said: list[tuple[str, str]] = []
    told: list[str] = []
    others: dict[str, list[str]] = {}
    for file in yaml_files(place, told):
        name = plain(str(file.relative_to(place)))
        try:
            with at_most(SECONDS):
                row, lines = judged(load_file(file))
        except NoRecipe as no:
            others.setdefault(no.kind, []).append(name)
            continue
        except Refusal as refusal:
            row = ("-", "-", "-", "refused")
            lines = [f"{finding.problem}; {finding.remedy}" for finding in refusal.findings]
        except Exception as error:
            # Its words may be the file's, and with them a secret.
            row, lines = ("-", "-", "-", "unreadable"), [f"{type(error).__name__} while it was read: please report it"]
        name = name.removesuffix(file.suffix)
        table.add_row(name, *row)
        more = [f"... and {len(lines) - LINES} more"] if len(lines) > LINES else []
        said += [(name, line) for line in [*lines[:LINES], *more]]
    if others:
        told.append(_skipped(others))
    console.print(table if table.row_count else f"no recipe (*.yaml, *.yml) is in {plain(str(place))}")
    for line in [*grouped(said), *told]:
        console.print(line, soft_wrap=True)


def yaml_files(place: Path, told: list[str]) -> list[Path]:
    """What has the name of a YAML file in a folder and those within it; what can't be looked into is told."""

    def unreadable(error: OSError) -> None:
        told.append(f"{plain(str(error.filename))}: can't be looked into: {os.strerror(error.errno or 0)}")

    found: list[Path] = []
    for looked, (folder, folders, files) in enumerate(os.walk(place, onerror=unreadable)):
        found += [Path(folder, name) for name in (*folders, *files) if name.lower().endswith((".yaml", ".yml"))]
        if looked >= FOLDERS or len(found) >= FILES:
            told.append(
                f"more than {FOLDERS:,} folders or {FILES:,} files: the rest is left out; name a smaller folder"
            )
            break
    return sorted(found[:FILES])


class TooSlow(Exception):
    """No TimeoutError, which is an OSError, and so what a reader may take for a file that is not there."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Seconds of this process's own computing; raises TooSlow behind them."""

    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _skipped(others: dict[str, list[str]]) -> str:
    """The files that are no recipes, by kind, in one line."""
    kinds = []
    for kind, names in others.items():
        more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
        kinds.append(f"{', '.join(names[:NAMES])}{more} ({kind})")
    count = sum(map(len, others.values()))
    return f"{count} {'file is no recipe' if count == 1 else 'files are no recipes'}: {'; '.join(kinds)}"


def judged(recipe: Recipe) -> tuple[tuple[str, str, str, str], list[str]]:
    """The row of a recipe behind its name, and what is to be said of it."""
    cases = list(_cases(recipe))
    remarks = list(dict.fromkeys(remark for _, said in cases for remark in said))
    remarks += mods.remarks(recipe.mods)
    engine = f"{recipe.engine} {recipe.engine_version or '(version unknown)'}"
    topologies = ", ".join(name for name, _ in cases)
    for model in recipe.models:
        if model.revision is None:
            knob = "model_revision" if model is recipe.model else "model_revisions"
            remarks.append(Remark(False, f"it names no revision of {model.repo}", f"set the knob {knob}"))
    errors, others = [r for r in remarks if r.error], [r for r in remarks if not r.error]
    verdict = "refused" if errors else f"ok, {len(others)} remark(s)" if others else "ok"
    lines = [f"error: {remark}" for remark in errors] + [f"remark: {remark}" for remark in others]
    return (recipe.format, engine, topologies, verdict), lines


def _cases(recipe: Recipe) -> Iterator[tuple[str, list[Remark]]]:
    """Each topology, in a cluster with the executor that the image can do."""
    for topology in recipe.topologies:
        if topology != "cluster":
            yield topology, lint(recipe, _knobs(topology=topology))
            continue
        nodes = max(2, recipe.min_nodes)
        by_ray = lint(recipe, _knobs(topology=topology, executor="ray"), nodes=nodes)
        without = lint(recipe, _knobs(topology=topology, executor="mp"), nodes=nodes)
        needs_mp = sum(remark.error for remark in by_ray) > sum(remark.error for remark in without)
        name = f"cluster of {nodes}" if nodes > 2 else "cluster"
        yield (f"{name} (executor=mp)", without) if needs_mp else (name, by_ray)


def _knobs(**changes: str) -> Knobs:
    return read_knobs(_declared() | changes)


@functools.cache
def _declared() -> dict[str, Any]:
    return group_data()


if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main("".join(sys.argv[1:2]), os.environ.get("RECIPE", "")))
