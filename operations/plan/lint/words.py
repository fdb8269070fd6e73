"""The recipe's words against the vocabulary: variables, flags, choices, parsers, kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from operations.plan.lint.rules import PLUGIN_PARSERS
from operations.plan.lint.subject import Subject, parse, releases
from operations.plan.lint.versions import NEVER, VARIABLES
from operations.plan.refusal import Remark, nearest

#: vLLM reads these values in any case, with either dash.
_LOOSE = ("moe-backend", "linear-backend", "attention-backend")
#: Variables of vLLM's that are read elsewhere than in envs.py.
_ELSEWHERE = ("VLLM_ASSETS_CACHE", "VLLM_TUNED_CONFIG_FOLDER", "VLLM_TEST_")


def variables(of: Subject) -> Iterator[Remark]:
    """VLLM_* names that it does not read, and values outside their choices."""
    known = of.vocabulary.get("environment")
    if known is None:
        return
    for name, value in of.recipe.env.items():
        if not name.startswith("VLLM_") or name.startswith(_ELSEWHERE):
            continue
        if name not in known:
            if name in NEVER or name in VARIABLES:
                continue
            remedy = _elsewhere("environment", name, of) or nearest(name, known, "remove it: it does nothing")
            yield Remark(True, f"{of.who} reads no `{name}`", remedy)
        elif choices := known[name]:
            wrong = [each for each in value.split(",") if each.lower() not in (c.lower() for c in choices)]
            if wrong and value:
                yield Remark(True, f"{name}: {of.who} knows no `{', '.join(wrong)}`", _one_of(wrong[0], choices))


def flags(of: Subject) -> Iterator[Remark]:
    """Flags that `vllm serve` does not have, and values outside their choices."""
    known = of.vocabulary.get("flags")
    if known is None:
        return
    for each in of.recipe.flags:
        name = each.name if each.name in known else each.name.removeprefix("no-")
        if name not in known:
            remedy = _elsewhere("flags", each.name, of) or nearest(each.name, known, "remove it")
            yield Remark(True, f"{of.who} has no flag `{each.words[0]}`", remedy)
            continue
        choices = known[name].get("choices")
        if not choices or each.value is True:
            continue
        if _plain(name, str(each.value)) not in [_plain(name, choice) for choice in choices]:
            yield Remark(True, f"{name}: {of.who} knows no `{each.value}`", _one_of(str(each.value), choices))


def parsers(of: Subject) -> Iterator[Remark]:
    """Parser names that are not registered, unless a plugin file brings them."""
    for flag, table in (("reasoning-parser", "reasoning_parsers"), ("tool-call-parser", "tool_parsers")):
        name, known = of.recipe.flag(flag), of.vocabulary.get(table)
        if not isinstance(name, str) or not known or name in known or name in PLUGIN_PARSERS:
            continue
        plugin = "reasoning-parser-plugin" if flag == "reasoning-parser" else "tool-parser-plugin"
        if of.recipe.flag(plugin) is None:
            remedy = nearest(name, known, f"one of: {', '.join(known)}")
            yield Remark(True, f"{flag}: {of.who} has no `{name}`", f"{remedy} (or name its file with {plugin})")


def kernels(of: Subject) -> Iterator[Remark]:
    """Members of VLLM_DISABLED_KERNELS that are no class: they are ignored in silence."""
    known: list[str] = of.vocabulary.get("kernels") or []
    text = of.recipe.env.get("VLLM_DISABLED_KERNELS", "")
    for name in text.split(",") if text and known else []:
        if name == name.strip() and name not in known:
            yield Remark(
                False, f"VLLM_DISABLED_KERNELS: {of.who} has no `{name}`", nearest(name, known, "it does no harm")
            )


def _elsewhere(kind: str, name: str, of: Subject) -> str:
    """Whether a name was there once, or came later; empty: no release that is known has it."""
    having = [version for version, words in releases().items() if name in (words.get(kind) or {})]
    if not having:
        return ""
    if of.version and parse(having[-1]) < parse(of.version):
        return f"it is gone: vLLM {having[-1]} still had it; remove it"
    return f"it came later: vLLM {having[0]} has it; remove it, or take a newer image"


def _plain(flag: str, value: str) -> str:
    return value.lower().replace("-", "_") if flag in _LOOSE else value


def _one_of(value: str, choices: Sequence[str]) -> str:
    close = nearest(value, choices, "")
    return f"{close} one of: {', '.join(choices)}".strip()
