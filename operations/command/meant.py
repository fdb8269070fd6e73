"""What to type in the place of words that the command does not take: a verb, an option or a knob."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
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
#: A verb and an option that it has by another name.
_OTHERWISE = {
    ("init", "--recipe"): "--model",
    ("init", "--purpose"): "--for",
    ("init", "--users"): "--people",
    ("fit", "--people"): "--users",
}
#: What `tandem advise` has in its load.
_OF_A_LOAD = ("--users", "--people", "--prompt", "--answer")


def verb(path: str, word: str, verbs: Sequence[str]) -> str:
    """The line for an unknown verb. `path`: what stands before it; `verbs`: those that could stand there."""
    typed = f"{path} {word}".removeprefix("tandem ")
    if typed in TYPED:
        line, does = TYPED[typed]
        return f"no verb is named `{word}`: `tandem {line}` {does}"
    return f"no verb is named `{word}`: {nearest(word, verbs, f'`{path} --help` lists them')}"


def words(context: Any, extra: list[str], argv: Sequence[str]) -> str:
    """The line for words that the verb does not take. `context`: click's; `argv`: all that was typed."""
    path, flags = context.command_path, {each for of in _options(context) if of.is_flag for each in of.opts}
    named = {f"--{word}" for word in extra}
    if named <= flags and (_REMOVES[1] not in named or len(argv) == 2):
        return f"did you mean `tandem {_line(f'--{word}' if word in extra else word for word in argv)}`?"
    takes = f"`{path}` takes no `{' '.join(extra)}`"
    if context.info_name in _TOGETHER:
        return f"{takes}; write {_TOGETHER[context.info_name][0]}: `{_together(context, argv)}`"
    if _is_node(context, extra[0]):
        takes += " (no verb takes a node: each is about all of them)"
    return f"{takes}; `{path} --help` lists what there is"


def option(context: Any, name: str, argv: Sequence[str]) -> str:
    """The line for an option that the verb has not, but that is a knob or another verb's.

    Empty: it is neither, or the verb has one that is nearly the same.
    """
    from operations.plan.config.knobs import Knobs, is_typed

    value, path = _value(name, argv), context.command_path
    if context.parent is None and (line := _behind_its_verb(name, context.command.commands, argv)):
        return f"`{name}` stands behind the verb: `tandem {line}`"
    if other := _OTHERWISE.get((context.info_name, name)):
        line = _line(other + word.removeprefix(name) if word.partition("=")[0] == name else word for word in argv)
        return f"`{path}` has no `{name}`; did you mean `tandem {line}`?"
    if context.info_name == "advise" and name in _OF_A_LOAD:
        return f'`{path}` has no `{name}`; the load is words in quotes: `tandem advise "8 users chat"`'
    if get_close_matches(name, [each for of in _options(context) for each in of.opts], n=1, cutoff=_ALIKE):
        return ""
    knob = name.lstrip("-").replace("-", "_")
    if knob in Knobs.model_fields:
        if not is_typed(knob):
            return f"`{knob}` is a knob: say it in group_data/all.py"
        # What only looks at nodes shall not lead to a deploy.
        taking = path if any(of.name == "knobs" for of in context.command.params) else "tandem plan"
        return f"`{knob}` is a knob: `{taking} {knob}={value or 'VALUE'}`"
    verbs = context.find_root().command.commands.items()
    having = [
        (each, of)
        for each, command in verbs
        for of in command.params
        if name in of.opts and name.startswith("--") and (each, name) != _REMOVES
    ]  # fmt: skip
    if not 0 < len(having) <= _MOST:
        return ""
    with_value = f" {value or 'VALUE'}" if not having[0][1].is_flag else ""
    of = [f"`tandem {each} {name}{with_value}`" for each, _ in having]
    return f"`{path}` has no `{name}`; did you mean {', or '.join(of)}?"


def _behind_its_verb(name: str, verbs: Mapping[str, Any], argv: Sequence[str]) -> str:
    """The typed line with its verb first; an empty text where there is no verb that has the option `name`."""
    place = next((place for place, word in enumerate(argv) if word in verbs), None)
    if place is None or (verb := argv[place], name) == _REMOVES or hasattr(verbs[verb], "commands"):
        return ""
    if not any(name in of.opts for of in verbs[verb].params):
        return ""
    return _line([verb, *argv[:place], *argv[place + 1 :]])


def _together(context: Any, argv: Sequence[str]) -> str:
    """The same line with the words of a verb of `_TOGETHER` as one."""
    _, own, between = _TOGETHER[context.info_name]
    typed = _read(context, argv)
    folder = _folder(typed, own) if context.info_name == "init" else ""
    together = [word.strip(between) for name, word in typed if name in ("", own) and word != folder]
    line = [*context.command_path.split(), folder, own, between.join(filter(None, together))]
    for name, value in typed:
        line += [name, value] if name not in ("", own) else []
    return _line(filter(None, line))


def _folder(typed: Sequence[tuple[str, str]], own: str) -> str:
    """Which of the words that stand alone is the folder, and no Spark; empty: none."""
    alone = [word for name, word in typed if not name]
    for word in alone:
        if word.startswith(("~", ".")) or "/" in word or Path(word).is_dir():
            return word
    given = dict(typed).get(own, "")
    is_first = typed[0][0] == "" and given
    return alone[0] if is_first or "," in given.strip(",") else ""


def _read(context: Any, argv: Sequence[str]) -> list[tuple[str, str]]:
    """What was typed behind the verb, in its order: options with their values, and words that stand alone."""
    valued = {each for of in _options(context) if not of.is_flag for each in of.opts}
    found: list[tuple[str, str]] = []
    left = iter(argv[len(context.command_path.split()) - 1 :])
    for word in left:
        name, _, value = word.partition("=")
        if word == "--":
            continue
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


def _line(words: Iterable[str]) -> str:
    """Words as they are typed: a home's `~` is left to the shell."""
    return " ".join(word if re.fullmatch(r"[\w@%+=:,./~-]+", word) else shlex.quote(word) for word in words)


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
