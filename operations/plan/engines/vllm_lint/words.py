"""The recipe's words against the vocabulary: variables, flags, choices, parsers, kernels.

Where releases stand in for an engine, a word is wrong when it is wrong in each of them that has it, and one that none
of them has may be a build's own: then it is an error only as a slip of one that they have (near.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from operations.plan.config.refusal import Remark
from operations.plan.engines.vllm_lint.rules import PLUGIN_PARSERS
from operations.plan.engines.vllm_lint.values import Fault, fault
from operations.plan.engines.vllm_lint.versions import elsewhere, gone
from operations.plan.recipes.lint.near import hint, slip
from operations.plan.recipes.lint.subject import Subject
from operations.plan.recipes.recipe import Flag
from operations.wire.model import FlagFacts, Vocabulary

_OWN = "or it is one of this image's own"


def flags(of: Subject) -> Iterator[Remark]:
    """Flags that `vllm serve` does not have, and values that they do not take."""
    every = [each for each in of.vocabularies if each.get("flags")]
    names: list[str] = []
    told = " ".join(remark.problem for remark in of.recipe.remarks)
    for each in of.recipe.flags if every else ():
        # What has no value has been told by who has read the command.
        if any(name in told for word in each.words for name in re.findall(r"\{[A-Za-z_][\w-]*\}", word)):
            continue
        found = [facts for one in every if (facts := facts_of(one, each)) is not None]
        if not found:
            names = names or list(dict.fromkeys(name for one in reversed(every) for name in one["flags"] or ()))
            yield from _unknown(of, each, every, names)
            continue
        if facts_of(every[-1], each) is None:
            yield from gone(of, "flags", each.name, f"flag `{_head(each)}`")
        wrong = [fault(each.name, facts, each) for facts in found]
        if all(wrong) and (last := wrong[-1]):
            yield _outside(of, each.name, last, found) if last.choices else _refused(of, last)


def facts_of(vocabulary: Vocabulary, flag: Flag) -> FlagFacts | None:
    """What a flag takes, `no-` in front of a switch among them; None: there is no such flag."""
    known = vocabulary["flags"] or {}
    if flag.name in known:
        return known[flag.name]
    if not flag.words[0].startswith("--"):
        return next((facts for facts in known.values() if flag.name in facts.get("short", ())), None)
    switch = known.get(flag.name.removeprefix("no-"))
    return {"takes": "bare"} if switch is not None and switch.get("takes", "switch") == "switch" else None


def _unknown(of: Subject, flag: Flag, every: Sequence[Vocabulary], known: Sequence[str]) -> Iterator[Remark]:
    problem = of.no("has", f"`{_head(flag)}`", "flag")
    if any(name.startswith(flag.name) for name in known) and (short := _abbreviated(flag, every)):
        whole = f"--{short} is meant by `{_head(flag)}`, which not every rule here sees"
        yield Remark(False, whole, f"write --{short}")
        return
    if of.certain:
        yield Remark(True, problem, elsewhere(of, flag.name) or hint(flag.name, known, "remove it"))
    elif meant := slip(flag.name, known):
        yield Remark(True, problem, f"did you mean `{meant}`?")
    else:
        yield Remark(False, problem, f"{hint(flag.name, known, 'remove it')} {_OWN}")


def _abbreviated(flag: Flag, every: Sequence[Vocabulary]) -> str:
    """The one flag whose name begins with this: vLLM's parser takes it for that; empty: none, or several."""
    begins = [{name for name in one["flags"] or () if name.startswith(flag.name)} for one in every]
    found = set().union(*(names for names in begins if len(names) == 1))
    is_one = flag.words[0].startswith("--") and len(found) == 1
    return next(iter(found)) if is_one and all(len(names) < 2 for names in begins) else ""


def _head(flag: Flag) -> str:
    return flag.words[0].partition("=")[0]


def _refused(of: Subject, what: Fault) -> Remark:
    return Remark(True, f"{what.problem} ({of.who})", what.remedy)


def _outside(of: Subject, name: str, what: Fault, found: Sequence[FlagFacts]) -> Remark:
    """A value that is none of a flag's choices in any release that has the flag."""
    choices = list(dict.fromkeys(choice for facts in reversed(found) for choice in facts.get("choices", ())))
    never_changed = all(set(facts.get("choices", ())) == set(choices) for facts in found)
    return _no_choice(of, name, what.outside, choices, is_error=never_changed)


def _no_choice(of: Subject, name: str, value: str, choices: Sequence[str], *, is_error: bool = False) -> Remark:
    is_error |= of.certain or bool(slip(value, choices)) or value.lower() in ("none", "null", "true", "false", "")
    remedy = f"{hint(value, choices, '')} one of: {', '.join(choices)}".strip()
    return Remark(is_error, f"{name}: {of.no('knows', f'`{value}`')}", remedy if is_error else f"{remedy}; {_OWN}")


def variables(of: Subject) -> Iterator[Remark]:
    """Values of VLLM_* variables that end its start. (It warns of names that it does not read: versions.py.)"""
    every = [known for each in of.vocabularies if (known := each.get("environment")) is not None]
    for name, value in of.recipe.env.items():
        kinds = [known[name] for known in every if name in known]
        if not kinds or not all(kinds):
            continue
        if all(_is_number(kind, value) is False for kind in kinds):
            yield Remark(True, f"{name} takes a whole number, not `{value}` ({of.who})", "write 0, 1 or another one")
        choices = list(dict.fromkeys(c for kind in kinds if isinstance(kind, list) for c in kind))
        known_words = [choice.lower() for choice in choices]
        if value and choices and (wrong := [each for each in value.split(",") if each.lower() not in known_words]):
            yield _no_choice(of, name, ", ".join(wrong), choices)


def _is_number(kind: str | list[str] | None, value: str) -> bool | None:
    """Whether a text is the number that a variable takes; None: it may be anything."""
    if kind not in ("int", "float"):
        return None
    try:
        (int if kind == "int" else float)(value)
    except ValueError:
        return False
    return True


def parsers(of: Subject) -> Iterator[Remark]:
    """Parser names that are not registered, unless a plugin file brings them."""
    for flag in ("reasoning-parser", "tool-call-parser"):
        name, every = of.recipe.flag(flag), list[Vocabulary]()
        known = dict[str, None]()
        for each in reversed(of.vocabularies):
            if words := each.get("reasoning_parsers") if flag == "reasoning-parser" else each.get("tool_parsers"):
                every.insert(0, each)
                known |= dict.fromkeys(words)
        if not isinstance(name, str) or not known or name in known or name in PLUGIN_PARSERS:
            continue
        facts = (known_flags.get(flag, {}) for each in every if (known_flags := each.get("flags")))
        if name.lower() == "none" and any("takes" not in each or each.get("none") for each in facts):
            continue
        plugin = "reasoning-parser-plugin" if flag == "reasoning-parser" else "tool-parser-plugin"
        if of.recipe.flag(plugin) is None:
            is_error = of.certain or bool(slip(name, known))
            listing = f"one of: {', '.join(known)}"
            remedy = f"{hint(name, known, listing)} (or name its file with {plugin})"
            yield Remark(is_error, f"{flag}: {of.no('has', f'`{name}`')}", remedy if is_error else f"{remedy}; {_OWN}")


def kernels(of: Subject) -> Iterator[Remark]:
    """Members of VLLM_DISABLED_KERNELS that are no class: they are ignored in silence."""
    known = {kernel for each in of.vocabularies for kernel in each.get("kernels") or []}
    text = of.recipe.env.get("VLLM_DISABLED_KERNELS", "")
    for name in text.split(",") if text and known else []:
        if name == name.strip() and name not in known:
            problem = f"VLLM_DISABLED_KERNELS: {of.no('has', f'`{name}`')}"
            yield Remark(False, problem, hint(name, known, "it does no harm"))
