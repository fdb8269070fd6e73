"""What somebody means whose words the command does not take: the verb, the option or the knob that does it."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from operations.plan.config.refusal import nearest

#: Words that people type, the line that does it, and what that line does.
_TYPED = (
    (("remove", "uninstall", "delete", "destroy"), "down --all", "removes everything (it asks)"),
    (("stop", "shutdown"), "down", "stops what serves; images and models stay"),
    (("start", "deploy", "up", "run", "serve"), "apply", "makes the nodes what your folder says"),
    (("install", "setup", "configure", "new"), "init ~/sparks", "finds your Sparks, and writes your folder"),
    (("update",), "upgrade", "says what a newer Tandem would change, and asks"),
    (("undo", "revert"), "rollback", "goes back to the plan that served before"),
    (("diff", "preview"), "plan", "shows what a deploy would change"),
    (("ps", "info"), "status", "says what runs on each node"),
    (("url", "address"), "endpoint", "says the URL and your key"),
    (("ask", "talk"), "chat", "talks to the model"),
    (("page", "dashboard", "ui"), "open", "opens the page"),
    (("revoke",), "key-revoke NAME", "ends the key of a client"),
    (("test",), "prove", "asks what serves questions whose answers are checked"),
    (("download", "fetch", "pull"), "models pull NAME", "fetches a model"),
    (("models remove", "models delete"), "models rm NAME", "removes a model from all nodes"),
    (("models download", "models fetch"), "models pull NAME", "fetches a model"),
    (("help",), "--help", "lists the verbs"),
)
#: Every word that is typed for a verb -> the line, and what it does.
TYPED = {word: (line, does) for words, line, does in _TYPED for word in words}
#: Verbs that are named.
_MOST = 3
#: Verbs of which several words are one: how, as it is written, and what is between them.
_TOGETHER = {
    "init": ("the Sparks with a comma", "--nodes {}", ","),
    "advise": ("the load in quotes", 'tandem advise "{}"', " "),
    "chat": ("the question in quotes", 'tandem chat --say "{}"', " "),
}


def verb(path: str, word: str, verbs: Sequence[str]) -> str:
    """Who typed a verb that there is not. `path`: what stands before it; `verbs`: those that could stand there."""
    typed = f"{path} {word}".removeprefix("tandem ")
    if typed in TYPED:
        line, does = TYPED[typed]
        return f"no verb is named `{word}`: `tandem {line}` {does}"
    return f"no verb is named `{word}`: {nearest(word, verbs, f'`{path} --help` lists them')}"


def words(context: Any, extra: list[str], argv: Sequence[str]) -> str:
    """Who typed more words than the verb takes. `context`: click's; `argv`: all that was typed."""
    path, options = context.command_path, {each for of in context.command.params for each in of.opts}
    if all(f"--{word}" in options for word in extra):
        return f"did you mean `{path} {' '.join(f'--{word}' for word in extra)}`?"
    takes = f"`{path}` takes no `{' '.join(extra)}`"
    if context.info_name in _TOGETHER:
        how, written, between = _TOGETHER[context.info_name]
        together = between.join(word.strip(between) for word in _around(extra[0], argv[1:]))
        return f"{takes}; write {how}: `{written.format(together)}`"
    if _is_node(context, extra[0]):
        takes += " (no verb takes a node: each is about all of them)"
    return f"{takes}; `{path} --help` lists what there is"


def option(context: Any, name: str, argv: Sequence[str]) -> str:
    """Who typed an option that the verb has not, but that is a knob or another verb's. Empty: it is neither."""
    from operations.plan.config.knobs import Knobs

    value = _value(name, argv)
    knob = name.lstrip("-").replace("-", "_")
    if knob in Knobs.model_fields:
        path = context.command_path if any(of.name == "knobs" for of in context.command.params) else "tandem apply"
        return f"`{knob}` is a knob: `{path} {knob}={value or 'VALUE'}`"
    verbs = context.find_root().command.commands.items()
    having = [(each, of) for each, command in verbs for of in command.params if name in of.opts]
    if not 0 < len(having) <= _MOST:
        return ""
    with_value = f" {value or 'VALUE'}" if not having[0][1].is_flag else ""
    of = [f"`tandem {each} {name}{with_value}`" for each, _ in having]
    return f"`{context.command_path}` has no `{name}`; did you mean {', or '.join(of)}?"


def _around(word: str, argv: Sequence[str]) -> list[str]:
    """The words without a dash among which one stands."""
    run: list[str] = []
    for each in argv:
        if not each.startswith("-"):
            run.append(each)
        elif word in run:
            break
        else:
            run.clear()
    return run


def _value(name: str, argv: Sequence[str]) -> str:
    """What was typed for an option; empty: nothing."""
    for word, behind in zip(argv, (*argv[1:], ""), strict=True):
        typed, _, value = word.partition("=")
        if typed == name and not (value or behind).startswith("-"):
            return shlex.quote(value or behind) if value or behind else ""
    return ""


def _is_node(context: Any, word: str) -> bool:
    """Whether the owner's inventory has the word; an inventory that can't be read has none."""
    folder, inventory = context.params.get("folder"), context.params.get("inventory")
    try:
        file = Path(inventory or Path(folder or ".", "inventory.py")).expanduser()
        tree = ast.parse(file.read_text())
    except (OSError, RuntimeError, ValueError, SyntaxError):
        return False
    return any(isinstance(each, ast.Constant) and each.value == word for each in ast.walk(tree))
