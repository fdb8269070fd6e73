"""A command line that serves a model, taken apart: the engine, its model, its flags, and what the plan says instead."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from operations.plan.config.refusal import Remark
from operations.plan.config.secret import instead, is_secret, known
from operations.plan.engines import ENGINES
from operations.plan.recipes import mod_acts
from operations.plan.recipes.formats import besides, parallel, variables
from operations.plan.recipes.formats.served_command import Served
from operations.plan.recipes.formats.shell import Word, split
from operations.plan.recipes.recipe import Flag, canonical

_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"


def served(text: str, env: Mapping[str, str]) -> Served:
    """Takes a script apart; raises ValueError when it is no shell script at all."""
    found = Served()
    _read(text, env, found)
    if found.others and found.engine:
        found.remarks.append(Remark(True, f"the command runs {besides.listed(found.others)} as well", besides.ONCE))
    elif found.others:
        *others, last = (f"`{called}`" for called in programs())
        engines = f"neither {', '.join(others)} nor {last} itself"
        remedy = "write the command of the engine that its script starts, or choose another recipe"
        found.remarks.append(Remark(True, f"the command runs {besides.listed(found.others)}, {engines}", remedy))
    return found


def programs() -> list[str]:
    """How the engines are called, each in its own words."""
    return [" ".join(runs.PROGRAM) for runs in ENGINES.values()]


def hook(text: str, env: Mapping[str, str], command: Served) -> None:
    """A script before the engine: it makes folders, or is run at each start; raises ValueError like `served`."""
    found = Served(folders=command.folders)
    _read(text, env, found)
    runs = f"a hook before the start runs {besides.listed(found.others)}"
    when = mod_acts.of_script(text, env)
    if found.engine:
        command.remarks.append(Remark(True, "a hook before the start serves a model", "write it as the command"))
    elif not found.others:
        command.remarks += found.remarks
    elif known(text):
        command.remarks.append(Remark(True, "a hook before the start gives a secret", "remove it from `pre_exec`"))
    elif when.when == "refused":
        command.remarks.append(Remark(True, f"{runs}: {when.sign}", "take it out of `pre_exec`"))
    elif when.when == "node":
        command.remarks.append(Remark(False, f"{runs}: {when.sign}", "left out: each start drops the caches already"))
    else:
        command.hooks.append(text)
        command.remarks.append(Remark(False, runs, "it is run at each start, before the engine"))


def _read(text: str, env: Mapping[str, str], found: Served) -> None:
    script = split(text)
    found.remarks += [Remark(False, oddity, "write it as one command") for oddity in script.oddities]
    found.remarks += [
        Remark(False, f"the command writes into `{each[:60]}`", "left out: the journal has the log")
        for each in script.files
    ]
    for command in script.commands:
        words = _assignments(command, {**env, **found.env}, found)
        if not words:
            continue
        texts = [word.text for word in words]
        if re.fullmatch(r"(.*/)?(ba)?sh", texts[0]) and re.fullmatch(r"-\w*c", "".join(texts[1:2])):
            _read("".join(texts[2:3]), env, found)
        elif found.engine or not _serves(words, {**env, **found.env}, found):
            besides.note(words, found)


def take_apart(engine: str, words: list[Word], found: Served) -> None:
    """Flags and the model out of an engine's arguments."""
    runs = ENGINES[engine]
    loose: list[Word] = []
    current: list[Word] = []
    said = {canonical(word.text) for word in words if _is_flag(word.text)}
    own = {name for name, beside in runs.OWN_BESIDE.items() if beside in said}
    for word in words:
        if _is_flag(word.text):
            _keep(engine, current, found, own)
            current = [word]
        elif current:
            current.append(word)
        else:
            loose.append(word)
    _keep(engine, current, found, own)
    if loose:
        found.model = loose[0].text
        found.remarks += variables.undefined(loose[0])
    elif "model" in found.owned:
        found.model = found.owned["model"]
    found.remarks += [_loose(extra.text) for extra in loose[1:]]
    found.remarks += parallel.remarks(runs, found.owned, found.spelt)
    ignored = sorted(name for name in found.owned if name in runs.IGNORED_FOREIGN_FLAGS and name != "model")
    keys = [name for name in ignored if is_secret(name)]
    for name in keys:
        problem = f"`--{name}` is left out: what stands in a command can be read by everybody"
        found.remarks.append(Remark(False, problem, instead(name.replace("-", "_"))))
    if follows := [name for name in ignored if name not in keys]:
        found.remarks.append(
            Remark(False, f"{', '.join(follows)}: from the knobs, not from the recipe", "nothing to do")
        )


def _loose(text: str) -> Remark:
    """For a word that belongs to nothing; one behind a dash of a word processor was to be a flag."""
    meant = text.lstrip(_DASHES)
    remedy = f"write `--{meant}` if a flag is meant" if meant != text else "remove it"
    return Remark(True, f"`{text[:60]}` is neither a flag nor a flag's value", remedy)


def _is_flag(text: str) -> bool:
    return text.startswith("-") and not re.fullmatch(r"-[\d.].*|-", text)


def _keep(engine: str, words: list[Word], found: Served, own: Collection[str]) -> None:
    """One flag with its words: kept, or noted when the plan owns it. `own`: names that are the recipe's this time."""
    if not words:
        return
    runs = ENGINES[engine]
    first = words[0].text
    written = first.partition("=")[0]
    name = canonical(first)
    if not first.startswith("--"):
        short = written[1:]
        name = runs.SHORT.get(short, runs.SHORT.get(short[:1], name) if short[1:].isdigit() else name)
    name = runs.SAME.get(name, name)
    kept = Flag(name=name, words=tuple(word.text for word in words))
    if name in runs.OWNED and name not in own:
        takes = max(0, runs.TAKES.get(name, 1) - ("=" in first))
        found.remarks += [_loose(word.text) for word in words[1 + takes :] if name not in ("api-key", "hf-token")]
        kept = Flag(name=name, words=kept.words[: 1 + takes])
        found.owned[name] = "" if kept.value is True else str(kept.value)
        found.spelt[name] = written
        if name == "model":
            for word in words:
                found.remarks += variables.undefined(word)
        # A value may be somebody's key: it is not shown.
        if name not in runs.IGNORED_FOREIGN_FLAGS and name not in runs.COUNTED and name != "revision":
            found.remarks.append(Remark(True, f"`{written}`: {runs.OWNED[name]}", "remove it from the command"))
    elif is_secret(name, " ".join(kept.words)):
        problem = f"`{written}` gives a secret on the command line, where everybody can read it"
        found.remarks.append(Remark(True, problem, "remove it from the command"))
    else:
        found.flags.append(kept)
        for word in words:
            if variables.are_left(word):
                found.shell.append(word.text)
                found.remarks += variables.left(word, found.exports)
            else:
                found.remarks += variables.undefined(word)


def _serves(words: list[Word], env: Mapping[str, str], found: Served) -> bool:
    """Whether this command is an engine's; then it is taken apart."""
    texts = [word.text for word in words]
    for name, runs in ENGINES.items():
        before = besides.wrapped(texts, runs.arguments)
        arguments = runs.arguments(texts[before:])
        if arguments is None:
            continue
        found.engine = name
        rest = words[len(words) - len(arguments) :] if arguments else []
        called = texts[before : len(texts) - len(rest)]
        own = runs.program(called)
        if before and texts[0].endswith("mpirun"):
            found.remarks.append(Remark(False, "mpirun with one process", "left out: one needs none"))
        elif before:
            found.remarks += [remark for word in words[:before] for remark in variables.undefined(word)]
            own = [*texts[:before], *(own or runs.PROGRAM)]
        found.program_words = own
        take_apart(name, [_expanded(word, env, found) for word in rest], found)
        return True
    return False


def _assignments(words: list[Word], env: Mapping[str, str], found: Served) -> list[Word]:
    """Takes `NAME=value` and `export NAME=value` away from the front; the words that are left."""
    while words and words[0].text in ("export", "exec", "env", "nohup", "declare", "-x"):
        words = words[1:]
    while words and (assigned := re.match(r"([A-Za-z_]\w*)=", words[0].text)):
        _assign(assigned.group(1), words[0], env, found)
        words = words[1:]
    return words


def _assign(name: str, word: Word, env: Mapping[str, str], found: Served) -> None:
    """A variable with what is known filled in; one that names others of the container is left to its shell."""
    known = _expanded(word, env, found)
    if variables.are_left(known):
        found.exports[name] = word.text.partition("=")[2]
        return
    found.remarks += variables.undefined(known)
    found.env[name] = known.text.partition("=")[2]


def _expanded(word: Word, env: Mapping[str, str], found: Served) -> Word:
    known = variables.expanded(word, env, found.room)
    found.room -= len(known.text) - len(word.text)
    return known
