"""The application and its groups of verbs; what each verb's help has besides its words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer

Verb = TypeVar("Verb", bound=Callable[..., int])

#: In the order in which `tandem --help` has them.
DAILY, KEYS, CHOOSE, EXAMINE, LAB, DEVELOP = (
    "Daily",
    "Keys of clients",
    "Choose",
    "Examine",
    "The lab: rehearse without Sparks",
    "For who works on Tandem itself",
)
#: How every verb ends.
EXITS = {
    0: "done",
    1: "it failed, or what was examined is bad",
    2: "a word was not understood: nothing was asked of a node",
    3: "no node answers: nothing was changed",
    130: "you ended it (Ctrl-C)",
}

app = typer.Typer(name="tandem", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich")


def verb(group: str, *examples: str, name: str = "") -> Callable[[Verb], Verb]:
    """Makes a function a verb of `group`: `name` where it is not the function's, `examples` at the end of its help."""
    told = "\n".join(("Examples:", *(f"  {each}" for each in examples))) if examples else ""

    def add(function: Verb) -> Verb:
        called = name or function.__name__.replace("_", "-")
        app.command(called, rich_help_panel=group, epilog=told)(function)
        return function

    return add
