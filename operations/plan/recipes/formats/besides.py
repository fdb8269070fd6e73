"""What a script does beside its engine: what starts it, what changes nothing for it, and what is done elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from operations.plan.config.refusal import Remark
from operations.plan.engines import ENGINES
from operations.plan.recipes.formats.served_command import Served
from operations.plan.recipes.formats.shell import Word

#: What is done with other commands; how many of them are named.
ONCE = "do it once, in a mod (files/mods): a start runs the engine and nothing else"
_NAMED = 3
#: Programs that start another one, which goes on as it would without them, on cores or with a priority of its own.
_WRAPPERS = ("taskset", "numactl", "nice", "ionice", "chrt", "stdbuf")
#: Words of them and of their options.
_WRAPPED_WORDS = 12
#: Syntax of the shell, which is no command.
_SYNTAX = ("then", "do", "else", "fi", "done", "esac", "{", "}", "!")
#: Shell words that change nothing for the engine.
_HARMLESS = (":", "set", "true", "wait", "echo", "ulimit")
_OTHER_ENGINES = ("atlas", "uvicorn", "max", "exllama", "tabby", "ollama", "text-generation")


def listed(commands: list[str]) -> str:
    """The first of some commands, and how many more there are."""
    commands = list(dict.fromkeys(commands))
    more = len(commands) - _NAMED
    return ", ".join(f"`{each}`" for each in commands[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def wrapped(texts: list[str], arguments: Callable[[Sequence[str]], list[str] | None]) -> int:
    """How many words stand in front of an engine's that start it; 0: none, or it is not an engine's."""
    program = texts[0].rpartition("/")[2]
    is_one = program == "mpirun" and re.search(r"^\S+ (?:-\S+ )*?-n?np? 1 ", " ".join(texts))
    if not (is_one or program in _WRAPPERS):
        return 0
    return next((at for at in range(1, len(texts[:_WRAPPED_WORDS])) if arguments(texts[at:]) is not None), 0)


def note(words: list[Word], found: Served) -> None:
    """A command beside the engine's: harmless, or refused by name."""
    while words and words[0].text in _SYNTAX:
        words = words[1:]
    if not words:
        return
    program = words[0].text
    if program == "mkdir":
        found.folders += [word.text for word in words[1:] if not word.text.startswith("-")]
        return
    paths = [word.text for word in words[1:] if word.text.startswith("/")]
    if program in ("chown", "chmod") and paths and all(_is_made(path, found.folders) for path in paths):
        found.remarks.append(Remark(False, f"the command runs `{program}` on folders that it makes", "left out"))
        return
    text = " ".join(word.text for word in words)[:80]
    if program in _HARMLESS:
        found.remarks.append(Remark(False, f"the command runs `{text}`", "left out: it changes nothing for the engine"))
    elif program == "tee":
        found.remarks.append(
            Remark(False, "the command pipes its output into tee", "left out: the journal has the log")
        )
    elif program == "ray":
        found.remarks.append(Remark(False, f"the command runs `{text}`", "left out: Tandem starts Ray itself"))
    elif any(program.startswith(each) or each in text.split()[:3] for each in _OTHER_ENGINES):
        found.remarks.append(Remark(True, f"it serves with `{program}`", f"Tandem serves with {' or '.join(ENGINES)}"))
    else:
        found.others.append(text)


def _is_made(path: str, folders: list[str]) -> bool:
    """Whether a path is that of folders that the recipe makes, or above them."""
    return any(f"{each}/".startswith(f"{path.rstrip('/')}/") for each in folders)
