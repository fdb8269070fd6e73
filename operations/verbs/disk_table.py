"""What the verbs for models on disks ask the nodes, and what they print."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from pyinfra.api.host import Host
from rich.console import Console
from rich.table import Table

from operations.node.unit import disks as node_disks
from operations.node.unit import take_away
from operations.plan import disks
from operations.plan.disks import Thing
from operations.plan.recipes.formats import FOLDER, load_recipe
from operations.runner.remote import ask_or_none
from operations.runner.run import Run
from operations.verbs.report import everywhere
from operations.wire.disks import Need, Picked, Shelf, Taken

COLUMNS = ("node", "model", "GB", "needed by", "served last", "", "state")


def shelves(run: Run, store: str) -> dict[str, Shelf]:
    """What lies on each node that answers."""
    return everywhere(run, run.answering, lambda host: ask_or_none(host, node_disks.main, store))


def recipe_needs(name: str) -> list[Need]:
    """The revisions of a recipe of Tandem's, or of a file; nothing where there is none of that name. Raises Refusal for
    one that can't be read.
    """
    if not os.path.lexists(FOLDER / f"{name}.yaml") and not (name.endswith((".yaml", ".yml")) and os.path.exists(name)):
        return []
    models = load_recipe(name).models
    return [{"folder": each.folder, "revision": each.revision or "", "who": name, "when": ""} for each in models]


def show(every: Sequence[Thing], of: Mapping[str, Shelf]) -> None:
    """A row for each thing, the largest first; under it what each node has in all."""
    table = Table(*COLUMNS, box=None, pad_edge=False)
    for name in of:
        for each in sorted((each for each in every if each.node == name), key=lambda each: -each.size):
            table.add_row(name, each.title, gigabytes(each.size), *_words(each))
    # A pipe has no width: nothing is cut there.
    Console(width=None if sys.stdout.isatty() else 240, highlight=False, markup=False).print(table)
    print()
    for name, shelf in of.items():
        mine = [each for each in every if each.node == name]
        may_go = [each for each in mine if not each.stays]
        total, room = disks.freed(mine, mine), disks.freed(may_go, every)
        more = f"; `tandem models prune` would free {gigabytes(room)} GB" if may_go else ""
        print(f"{name}: {gigabytes(total)} GB, files that several have once; {gigabytes(shelf['free'])} GB free{more}")


def _words(each: Thing) -> tuple[str, str, str, str]:
    """The columns behind the size."""
    if each.serves:
        last = "now"
    else:
        last = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.last)) if each.last else each.when or "-"
    sign = "pinned" if each.is_pinned else "may go" if not each.stays else ""
    return ", ".join(each.who) or "-", last, sign, each.state


def document(every: Sequence[Thing], of: Mapping[str, Shelf]) -> dict[str, object]:
    """The same for programs, in bytes; `last`: seconds since 1970, null where nobody knows."""
    return {
        name: {
            "free": shelf["free"],
            "things": [
                {
                    **each.picked,
                    "repo": each.repo,
                    "bytes": each.size,
                    "frees": disks.freed([each], every),
                    "state": each.state,
                    "needed_by": list(each.who),
                    "in_use": list(each.busy),
                    "pinned": each.is_pinned,
                    "last": each.last or None,
                    "may_go": not each.stays,
                    "stays": list(each.stays),
                }
                for each in every
                if each.node == name
            ],
        }
        for name, shelf in of.items()
    }


def going(chosen: Sequence[Thing], every: Sequence[Thing]) -> dict[str, object]:
    """What would go, for who asks the owner: lines by node with bytes, keys by node, and bytes that it frees."""
    found: dict[str, list[dict[str, object]]] = {}
    for each in chosen:
        needed = f", which {' and '.join(each.who)} needs: it would be fetched again" if each.who else ""
        found.setdefault(each.node, []).append({"what": f"{each.title}{needed}", "bytes": each.size, "key": each.key})
    return {"things": found, "frees": disks.freed(chosen, every)}


def removed(run: Run, store: str, gone: Sequence[Thing], shown: Iterable[str]) -> tuple[list[str], list[str]]:
    """Take these away; a line for each node, and what is still there. `shown`: nodes on which the owner wants it."""
    answers = _on_each(run, gone, lambda host, picked: ask_or_none(host, take_away.main, store, picked))
    lines = [f"{name}: {gigabytes(answer['freed'])} GB freed" for name, answer in answers.items()]
    told = [f"{name}: {problem}" for name, answer in answers.items() for problem in answer["problems"]]
    # One that had nothing left of it by now was not asked.
    asked = {each.node for each in gone} | (set(shown) - {host.name for host in run.answering})
    return lines, [*told, *_silent(asked - answers.keys())]


def pinned(run: Run, chosen: Sequence[Thing], wanted: bool) -> tuple[list[str], list[str]]:
    """Pin these revisions, or let them go; a line for each, and nodes on which nobody knows."""
    mine = [each for each in chosen if each.picked["revision"]]
    answers = _on_each(run, mine, lambda host, picked: ask_or_none(host, take_away.pin, picked, wanted))
    said = "stays until it is unpinned" if wanted else "is not pinned"
    done = [f"{each.node}: {each.title} {said}" for each in mine if each.node in answers]
    return done, _silent({each.node for each in mine} - answers.keys())


def _silent(nodes: Iterable[str]) -> list[str]:
    """A line for each node that was asked, and has not answered."""
    return [f"{name} gave no answer: say the same again, or look with `tandem models`" for name in sorted(nodes)]


def _on_each(run: Run, of: Sequence[Thing], asked: Callable[[Host, list[Picked]], Taken | None]) -> dict[str, Taken]:
    """Ask the nodes that have these."""
    by_node: dict[str, list[Picked]] = {}
    for each in of:
        by_node.setdefault(each.node, []).append(each.picked)
    hosts = [each for each in run.answering if each.name in by_node]
    return everywhere(run, hosts, lambda host: asked(host, by_node[host.name])) if hosts else {}


def gigabytes(size: float) -> str:
    """GB with a digit behind the point."""
    return f"{size / 1e9:.1f}"
