"""Programs on the nodes and those who ask them: the shape of an answer, and the names of arguments."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_overloads, get_type_hints

import pytest

from operations import remote

OPERATIONS = Path(remote.__file__).parent
#: Who asks -> what is not for the program.
ASKING = {
    "ask": (),
    "hand": (),
    "ask_or_none": ("stdin",),
    "everywhere": ("deadline_s", "of_node", "stdin"),
    "Tether": (),
}


def main_of(program: str) -> Callable[..., Any]:
    found: Callable[..., Any] = importlib.import_module(f"operations.node.{program}").main
    return found


@pytest.mark.parametrize("promise", [*get_overloads(remote.ask), *get_overloads(remote.hand)])
def test_a_program_answers_in_the_shape_that_who_asks_is_promised(promise: Callable[..., Any]) -> None:
    hints = get_type_hints(promise)
    [program] = get_args(hints["program"])
    assert get_type_hints(main_of(program))["return"] == hints["return"]


def questions() -> Iterator[tuple[str, str, list[str]]]:
    """Where, the program, and the names of the arguments that are written there."""
    for file in sorted(OPERATIONS.rglob("*.py")):
        for call in (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)):
            asks = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            # A program that asks a server has an `ask` of its own.
            if asks in ASKING and "node" not in file.relative_to(OPERATIONS).parts:
                words = [each.value for each in call.args if isinstance(each, ast.Constant)]
                if program := next((word for word in words if isinstance(word, str)), ""):
                    names = [each.arg for each in call.keywords if each.arg and each.arg not in ASKING[asks]]
                    yield f"{file.relative_to(OPERATIONS)}:{call.lineno}", program, names


@pytest.mark.parametrize(("where", "program", "names"), [pytest.param(*each, id=each[0]) for each in questions()])
def test_a_program_has_the_arguments_that_it_is_given(where: str, program: str, names: list[str]) -> None:
    takes = inspect.signature(main_of(program)).parameters
    if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in takes.values()):
        assert not set(names) - takes.keys(), f"{where}: {program} does not take them"


def test_every_program_that_is_asked_was_found() -> None:
    assert {"look.look", "door.keys", "model.verify", "look.status"} <= {program for _, program, _ in questions()}
