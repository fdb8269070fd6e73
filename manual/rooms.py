"""The rooms of the house, and which of them import which.

A room is a package, or a part of one: `HOUSE` says which, from the roof down. A room imports from rooms below it and
from no other, so no arrow goes back, and there is no circle.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from manual import ROOT

#: Where modules are looked for.
_TOPS = ("config.py", "deploy.py", "operations", "bench", "manual", "tests")
#: What is no module of ours: it is read by other programs.
_OTHERS = ("tests/lab/images/", "tests/lab/group_data/", "tests/lab/inventory.py")


@dataclass(frozen=True)
class Room:
    """`holds`: names of modules and packages; what lies in a package is in the room that names it most closely."""

    name: str
    holds: tuple[str, ...]


def _all(package: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{package}.{name}" for name in names)


def _room(name: str) -> Room:
    return Room(name, (name,))


def _node(*names: str) -> list[Room]:
    return [_room(f"operations.node.{name}") for name in names]


#: What a recipe says, before anybody asks which engine reads it.
_A_RECIPE = Room(
    "operations.plan.recipes: one", _all("operations.plan.recipes", "recipe", "patterns", "shell_text", "lint")
)
#: A node, and how engines on it are told of each other.
_A_NODE = Room(
    "operations.plan.cluster: a node",
    _all("operations.plan.cluster", "nodes", "addresses", "environment", "nccl", "ray"),
)
#: The steps of a deploy, as `deploy.py` joins them.
STEPS = _room("operations.steps")
#: From the roof down, floor by floor.
HOUSE: tuple[list[Room], ...] = (
    [Room("tests.bench", ("tests.bench",))],
    [_room("tests.e2e")],
    [_room("tests.chaos")],
    [
        Room(
            "tests: plan, node, deploy ...",
            ("tests", *_all("tests.bench", "door", "routing", "spark_start", "start", "start_weights")),
        )
    ],
    [_room("tests.lab")],
    [_room("tests.support")],
    [Room("deploy.py", ("deploy", "config"))],
    [_room("operations.command")],
    [_room("operations.verbs")],
    [
        _room("operations.init"),
        _room("operations.doctor"),
        _room("bench.report"),
        # What a bench has measured is told to pages, with the advice of it.
        Room("bench: a run", ("bench.__main__", "bench.running")),
    ],
    [STEPS, _room("bench.advise")],
    [_room("operations.runner"), _room("bench"), _room("manual")],
    [*_node("doctor"), *(_room(f"operations.plan.{name}") for name in ("doctor", "advisories"))],
    [*_node("look"), _room("operations.plan")],
    [*_node("engine"), _room("operations.plan.services")],
    [*_node("door", "monitoring"), _room("operations.plan.cluster")],
    [*_node("copy", "unit"), _room("operations.plan.recipes")],
    [*_node("image", "kernels", "model", "machine", "network", "secret"), _room("operations.plan.engines")],
    [Room("operations.node", ("operations.node",)), _A_NODE],
    [_A_RECIPE],
    [_room("operations.plan.config")],
    [Room("operations.paths", ("operations", "operations.paths"))],
    [_room("operations.wire")],
)
FLOORS = {room.name: number for number, floor in enumerate(HOUSE) for room in floor}
_HELD = {held: room.name for floor in HOUSE for room in floor for held in room.holds}


@cache
def modules() -> Mapping[str, Path]:
    """Every module of the repository, by its name."""
    files = [file for top in _TOPS for file in ([ROOT / top] if top.endswith(".py") else (ROOT / top).rglob("*.py"))]
    paths = {str(file.relative_to(ROOT)): file for file in sorted(files)}
    ours = {path: file for path, file in paths.items() if not path.startswith(_OTHERS)}
    return {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): file for path, file in ours.items()}


def room_of(module: str) -> str:
    """The room that a module is in; empty: no room has it."""
    name = module
    while name and name not in _HELD:
        name = name.rpartition(".")[0]
    return _HELD.get(name, "")


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Which of our modules each module imports, wherever in it."""
    return {name: frozenset(_imported(name)) - {name} for name in modules()}


def _imported(name: str) -> Iterator[str]:
    known = modules()
    for node in ast.walk(ast.parse(known[name].read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                full = f"{node.module}.{each.name}"
                yield from (found for found in (full if full in known else node.module,) if found in known)


def arrows() -> dict[tuple[str, str], tuple[str, str]]:
    """By the two rooms, two modules of which the first imports the second."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for name, others in sorted(imports().items()):
        for other in sorted(others):
            if (pair := (room_of(name), room_of(other))) and pair[0] != pair[1]:
                found.setdefault(pair, (name, other))
    return found


def circle(graph: Mapping[str, frozenset[str]]) -> list[str]:
    """One way round, beginning and ending with the same name; empty: there is none."""
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name not in done:
            for other in sorted(graph.get(name, ())):
                if found := walk(other, [*way, name]):
                    return found
            done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := walk(name, []))), [])


def faults() -> list[str]:
    """What is not as the house is meant, a line each."""
    homeless = [f"{name} is in no room: name one in manual/rooms.py" for name in modules() if not room_of(name)]
    back = [
        f"{name} imports {other}: {mine} is not above {theirs} (manual/rooms.py)"
        for (mine, theirs), (name, other) in arrows().items()
        if mine and theirs and FLOORS[mine] >= FLOORS[theirs]
    ]
    round_ = circle(imports())
    return [*homeless, *back, *([f"modules import each other: {' -> '.join(round_)}"] if round_ else [])]
