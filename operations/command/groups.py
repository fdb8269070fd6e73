"""The application and its groups of verbs; what each verb's help has besides its words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.models import CommandInfo, TyperInfo

from operations.command.at import HERE, INVENTORY, At, enter
from operations.plan.config.refusal import Finding, Refusal

Verb = TypeVar("Verb", bound=Callable[..., int])

#: In the order in which `tandem --help` has them.
DAILY, KEYS, CHOOSE, EXAMINE, LAB, DEVELOP = (
    "Daily",
    "Keys of clients",
    "Choose",
    "Examine",
    "The lab: rehearse without Sparks (in the clone)",
    "For who works on Tandem itself (in the clone)",
)
_ORDER = (DAILY, KEYS, CHOOSE, EXAMINE, LAB, DEVELOP)
#: How every verb ends.
EXITS = {
    0: "done",
    1: "it failed, or what was examined is bad",
    2: "a word was not understood: no node was asked",
    3: "no node answers: nothing was changed",
    130: "you ended it (Ctrl-C)",
}

app = typer.Typer(
    name="tandem",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

#: What a verb takes that asks nodes, in the place of its `at`.
_AT = {
    "knobs": (
        Annotated[
            list[str] | None, typer.Argument(metavar="[KNOB=VALUE]...", help="Knobs for this run (docs/knobs.md).")
        ],
        None,
    ),
    "folder": (
        Annotated[
            Path, typer.Option("--folder", "-C", envvar="TANDEM_FOLDER", help="Your folder: inventory.py, group_data.")
        ],
        HERE,
    ),
    "inventory": (
        Annotated[Path | None, typer.Option("--inventory", envvar="TANDEM_INVENTORY", help="Another inventory.")],
        None,
    ),
    "data": (
        Annotated[list[str] | None, typer.Option("--data", metavar="KNOB=VALUE", help="A knob for this run.")],
        None,
    ),
}
Model = Annotated[str, typer.Option("--model", help="Of several models the one that this is about.")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs: JSON on standard output.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")]


def verb(
    group: str, *examples: str, name: str = "", knobs: bool = False, of: typer.Typer = app
) -> Callable[[Verb], Verb]:
    """Makes a function a verb of `group`: `name` where it is not the function's, `examples` at the end of its help,
    `of`: the verb that it stands behind (`verbs_of`).

    One whose first argument is `at` gets the owner's folder, with the options for it; with `knobs` it takes them as
    words of its own too. `at: At | None` is None where no folder is named and this is none.
    """

    def add(function: Verb) -> Verb:
        called = name or function.__name__.replace("_", "-")
        of.command(called, rich_help_panel=group, epilog=_told(examples))(_with_owner(function, knobs))
        return function

    return add


def verbs_of(group: str, *examples: str) -> Callable[[Verb], typer.Typer]:
    """Makes a function a verb with verbs behind it: it is what the verb does alone, and what it gives back takes them
    (`verb`, `of`).
    """

    def add(function: Verb) -> typer.Typer:
        called = function.__name__.replace("_", "-")
        behind = typer.Typer(name=called, invoke_without_command=True, rich_markup_mode="rich")
        behind.callback(epilog=_told(examples))(_alone(_with_owner(function, knobs=False)))
        app.add_typer(behind, rich_help_panel=group)
        return behind

    return add


def _told(examples: tuple[str, ...]) -> str:
    """The end of a verb's help."""
    ends = ", ".join(f"{code} {why}" for code, why in EXITS.items())
    return "\n\n".join((*(f"Example: {each}" for each in examples), f"Exit codes: {ends}."))


def _alone(function: Callable[..., int]) -> Callable[..., int]:
    """Does nothing where a verb stands behind it: that one has the owner's folder from its own words.

    Raises Refusal for an option before it: nobody would heed that.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def called(context: typer.Context, **given: Any) -> int:
        if not context.invoked_subcommand:
            return function(**given)
        for option in context.command.params:
            source = context.get_parameter_source(str(option.name))
            # A variable of the environment is the other verb's too.
            if source and source.name == "COMMANDLINE":
                word, behind = option.opts[0], f"{context.command_path} {context.invoked_subcommand}"
                problem = f"`{word}` stands before `{context.invoked_subcommand}`, which would not have it"
                remedy = f"write it behind, where `{behind} --help` lists it"
                raise Refusal(Finding(context.command_path, problem, remedy))
        return 0

    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    called.__signature__ = signature.replace(parameters=[first, *signature.parameters.values()])  # type: ignore[attr-defined]
    return called


def all_verbs() -> Iterator[tuple[str, str, CommandInfo | TyperInfo]]:
    """Group, words and what typer knows of each verb, as `tandem --help` has them; those behind a verb follow it."""
    for panel in _ORDER:
        yield from ((panel, str(each.name), each) for each in app.registered_commands if each.rich_help_panel == panel)
        for behind in (each.typer_instance for each in app.registered_groups if each.rich_help_panel == panel):
            assert behind is not None and behind.registered_callback is not None
            yield panel, str(behind.info.name), behind.registered_callback
            yield from ((panel, f"{behind.info.name} {each.name}", each) for each in behind.registered_commands)


def put_in_order() -> None:
    """Groups in their order, verbs of each as they were made."""
    app.registered_commands.sort(key=lambda each: _ORDER.index(str(each.rich_help_panel)))


def _with_owner(function: Callable[..., int], knobs: bool) -> Callable[..., int]:
    """`at` in a verb's signature stands for the options that say where the owner's things are."""
    signature = inspect.signature(function, eval_str=True)
    parameters = dict(signature.parameters)
    if (owned := parameters.pop("at", None)) is None:
        return function
    is_needed = owned.annotation is At
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in _AT.items()
        if knobs or name != "knobs"
    ]
    positional = [each for each in parameters.values() if each.default is inspect.Parameter.empty]

    @wraps(function)
    def called(**given: Any) -> int:
        folder, inventory = given.pop("folder"), given.pop("inventory")
        data = (*(given.pop("knobs", None) or ()), *(given.pop("data", None) or ()))
        if is_needed or inventory or folder != HERE or INVENTORY.is_file():
            return function(enter(folder, inventory, data), **given)
        return function(None, **given)

    rest = [each for each in parameters.values() if each not in positional]
    keyword = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*positional, *added, *rest)]
    called.__signature__ = signature.replace(parameters=keyword)  # type: ignore[attr-defined]
    return called
