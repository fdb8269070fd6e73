"""What somebody means whose words the command does not take: the verb, the option or the knob that does it."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from operations.plan.config.refusal import nearest

#: Words that people type, the line that does it, and what that line does.
_TYPED = (
    (("remove", "delete"), "down --all", "removes everything (it asks); `tandem models rm NAME` removes one model"),
    (("uninstall", "destroy"), "down --all", "removes everything (it asks)"),
    (("stop", "shutdown"), "down", "stops what serves; images and models stay"),
    (("start", "deploy", "up", "run", "serve"), "apply", "makes the nodes what your folder says"),
    (("restart", "reload"), "apply", "starts what does not run; what serves stays, unless your folder says otherwise"),
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
    (("version",), "--version", "says which Tandem this is"),
)
#: Every word that is typed for a verb -> the line, and what it does.
TYPED = {word: (line, does) for words, line, does in _TYPED for word in words}
#: Verbs that are named.
_MOST = 3
#: How alike two options are where one is a slip: `--user` and `--users` are 0.92, `--deep` and `--help` 0.67.
_ALIKE = 0.8
#: The one option that no other words lead to: it removes everything.
_REMOVES = ("down", "--all")
#: Verbs of which several words are one: how they are written, by which option (empty: by none), what is between them.
_TOGETHER = {
    "init": ("the Sparks with a comma", "--nodes", ","),
    "advise": ("the load in quotes", "", " "),
    "chat": ("the question in quotes", "--say", " "),
}
#: A verb and an option that it has by another name: what is typed for it.
_OTHERWISE = {
    ("init", "--recipe"): "--model {}",
    ("init", "--purpose"): "--for {}",
    ("advise", "--users"): "'{} users chat'",
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
    path, flags = context.command_path, {each for of in _options(context) if of.is_flag for each in of.opts}
    if all(f"--{word}" in flags for word in extra) and (f"--{extra[0]}" != _REMOVES[1] or len(argv) == 2):
        line = shlex.join(f"--{word}" if word in extra else word for word in argv)
        return f"did you mean `tandem {line}`?"
    takes = f"`{path}` takes no `{' '.join(extra)}`"
    if context.info_name in _TOGETHER:
        return f"{takes}; write {_TOGETHER[context.info_name][0]}: `{_together(context, argv)}`"
    if _is_node(context, extra[0]):
        takes += " (no verb takes a node: each is about all of them)"
    return f"{takes}; `{path} --help` lists what there is"


def option(context: Any, name: str, argv: Sequence[str]) -> str:
    """Who typed an option that the verb has not, but that is a knob or another verb's.

    Empty: it is neither, or the verb has one that is nearly the same.
    """
    from operations.plan.config.knobs import Knobs

    value, path = _value(name, argv), context.command_path
    if said := _OTHERWISE.get((context.info_name, name)):
        return f"`{path}` has no `{name}`; did you mean `{path} {said.format(value or 'VALUE')}`?"
    knob = name.lstrip("-").replace("-", "_")
    if field := Knobs.model_fields.get(knob):
        if isinstance(field.get_default(call_default_factory=True), dict):
            return f"`{knob}` is a knob: `{knob} = {{...}}` in group_data/all.py"
        taking = path if any(of.name == "knobs" for of in context.command.params) else "tandem apply"
        return f"`{knob}` is a knob: `{taking} {knob}={value or 'VALUE'}`"
    if get_close_matches(name, [each for of in _options(context) for each in of.opts], n=1, cutoff=_ALIKE):
        return ""
    verbs = context.find_root().command.commands.items()
    having = [
        (each, of)
        for each, command in verbs
        for of in command.params
        if name in of.opts and (each, name) != _REMOVES
    ]  # fmt: skip
    if not 0 < len(having) <= _MOST:
        return ""
    with_value = f" {value or 'VALUE'}" if not having[0][1].is_flag else ""
    of = [f"`tandem {each} {name}{with_value}`" for each, _ in having]
    return f"`{path}` has no `{name}`; did you mean {', or '.join(of)}?"


def _together(context: Any, argv: Sequence[str]) -> str:
    """The same line with the words of a verb of `_TOGETHER` as one."""
    _, own, between = _TOGETHER[context.info_name]
    typed = _read(context, argv)
    folder = next((word for name, word in typed if not name and _is_path(word)), "") if own == "--nodes" else ""
    if own == "--nodes" and not folder and typed[0][0] == "" and own in dict(typed):
        folder = typed[0][1]
    together = [word.strip(between) for name, word in typed if name in ("", own) and word != folder]
    line = [context.command_path, *([folder] if folder else []), *([own] if own else [])]
    line.append(shlex.quote(between.join(filter(None, together))))
    for name, value in typed:
        if name not in ("", own):
            line += [name, *([shlex.quote(value)] if value else [])]
    return " ".join(line)


def _read(context: Any, argv: Sequence[str]) -> list[tuple[str, str]]:
    """What was typed behind the verb, in its order: options with their values, and words that stand alone."""
    valued = {each for of in _options(context) if not of.is_flag for each in of.opts}
    found: list[tuple[str, str]] = []
    left = iter(argv[len(context.command_path.split()) - 1 :])
    for word in left:
        name, _, value = word.partition("=")
        if not word.startswith("-"):
            found.append(("", word))
        elif word in valued:
            found.append((word, next(left, "")))
        else:
            found.append((name, value) if name in valued else (word, ""))
    return found


def _options(context: Any) -> list[Any]:
    """Those of the verb, without its arguments."""
    return [each for each in context.command.params if each.param_type_name == "option"]


def _is_path(word: str) -> bool:
    return word == "." or word.startswith("~") or "/" in word


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
