"""How sure a figure is, in words: what it is from, and how far off, where anybody has found that for such a load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bench.advise.choose import ALONE, ELSEWHERE, ELSEWHERE_ERRORS, ERRORS, LARGEST, LONGEST, WORST, WORST_ALONE
from bench.advise.evidence import SAME_PROMPT
from bench.advise.load import Load
from bench.advise.options import Outlook
from bench.advise.setups import Kind
from bench.advise.words import folded

_KINDS: dict[Kind, str] = {
    "own run": "measured here",
    "published": "measured by others",
    "computed": "computed",
    "estimate": "estimated",
}


def kind_of(outlook: Outlook) -> str:
    """Where its figures are from, in a word or two."""
    if is_measured(outlook):
        return f"between rows {_KINDS[outlook.kind]}" if outlook.is_between else _KINDS[outlook.kind]
    if outlook.setup.ranks > LARGEST:
        return f"computed; nobody has measured clusters of {outlook.setup.ranks}"
    return f"{_KINDS[outlook.kind]} with a wait" if outlook.waiting else _KINDS[outlook.kind]


def is_measured(outlook: Outlook) -> bool:
    """By the owner or by others, or between two such figures."""
    return outlook.kind in ("own run", "published")


def off(outlook: Outlook) -> str:
    """How far off its figures may be; empty of what was measured."""
    if is_measured(outlook):
        return ""
    return "error unknown" if _unknown(outlook) else _error(outlook.kind)


def sure(outlook: Outlook) -> str:
    """Where its figures are from, and how far off they may be."""
    return f"{kind_of(outlook)}, {far}" if (far := off(outlook)) else kind_of(outlook)


def errors(outlooks: Iterable[Outlook]) -> Iterator[str]:
    """Lines for above a table: how far off its figures may be, and why that is not known of some. None where all of
    them are measured.
    """
    told = [each for each in outlooks if each.point and not is_measured(each)]
    known = {kind_of(each): _error(each.kind) for each in told if not _unknown(each)}
    if known:
        yield folded(f"Figures that are {'; '.join(f'{kind} are {far}' for kind, far in known.items())}.")
    if not (open_ := [each for each in told if _unknown(each)]):
        return
    # That nobody has measured such a cluster is said by the reason.
    kinds_open = dict.fromkeys(kind_of(each).partition(";")[0] for each in open_)
    whose = f" of what is {' or '.join(kinds_open)}" if known else ""
    reasons = list(dict.fromkeys(reason for each in open_ for reason in _unknown(each)))
    kinds = [f"{ERRORS[kind]:.0%} ({_KINDS[kind]})" for kind in dict.fromkeys(each.kind for each in open_)]
    nearest = f"at {LONGEST:,} tokens without a wait {' or '.join(kinds)} as a rule, {WORST:.0%} at worst"
    # The line above has it already.
    told_of = [] if known else [nearest]
    if any(is_long(each.load) for each in open_):
        rule, most = ELSEWHERE_ERRORS
        told_of.append(f"at {ELSEWHERE:,} on two H200 {rule:.0%} as a rule, {most:.0%} at worst")
    lacking = " or ".join(filter(None, (", ".join(reasons[:-1]), reasons[-1])))
    behind = f" Nearest that is known: {'; '.join(told_of)}." if told_of else ""
    yield folded(f"Error unknown{whose}: no table has {lacking}.{behind}")


def is_long(load: Load) -> bool:
    """Whether its prompts are longer than any that was measured with several users."""
    return load.prompt > LONGEST * SAME_PROMPT


def is_known(outlook: Outlook) -> bool:
    """Whether an error that was found holds for it."""
    return is_measured(outlook) or not _unknown(outlook)


def _error(kind: Kind) -> str:
    return f"off by {ERRORS[kind]:.0%} as a rule, {WORST:.0%} at worst"


def _unknown(outlook: Outlook) -> list[str]:
    """Why no error that was found holds for it, a reason each; empty: one holds."""
    load, found = outlook.load, list[str]()
    if outlook.setup.ranks > LARGEST:
        found.append(f"a cluster of more than {LARGEST}")
    if is_long(load) and load.users > 1:
        found.append(f"several users at prompts above {LONGEST:,} tokens")
    elif is_long(load):
        few = f"three figures at {ALONE:,} ({WORST_ALONE:.0%} at worst)"
        found.append(f"one user at prompts above {LONGEST:,} tokens, but for {few}")
    if load.cached:
        found.append("cached prompts")
    if outlook.waiting:
        found.append("users who wait for a turn")
    return found
