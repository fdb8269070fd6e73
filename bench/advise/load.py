"""The load that is asked about, as people say it: `8 users chat ttft=2s`, `users=8 prompt=1k answer=256`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from bench.slo import Slo
from operations.plan.config.refusal import Finding, Refusal, nearest

EXAMPLE = 'e.g. "8 users chat" or "users=8 prompt=1024 answer=256 ttft=2s"'
_COUNTS = {"users": 4096, "prompt": 10_000_000, "answer": 1_000_000}
_TIMES = ("ttft", "tpot", "e2e")
#: What may matter most -> in words.
BEST = {
    "whole": "the whole answer soonest",
    "ttft": "the first token soonest",
    "decode": "the most tokens a second once answers have begun",
    "prefill": "the most tokens of prompts a second",
}
_WORDS = (*_COUNTS, "cached", *_TIMES, "each", "best")
_SCALE = {"": 1, "k": 1000, "m": 1_000_000}
_NUMBER = r"(\d{1,9}|\d{1,3}(?:,\d{3})+)(?:\.(\d{1,3}))?([km]?)"
_PEOPLE = r"(?:users?|people|persons?|clients?|dev(?:eloper)?s?|engineers?|programmers?|team(?: members?)?)"
#: What people write for a word of ours.
_SPOKEN = (
    (rf"(?:(?:a|an|our|the) )?team of (\d\S*)(?: {_PEOPLE})?", r"users=\1"),
    (rf"(\d\S*) {_PEOPLE}", r"users=\1"),
    (r"(\d\S*) (?:tokens? )?(?:in|prompt|context)", r"prompt=\1"),
    (r"(\d\S*) (?:tokens? )?(?:out|answers?)", r"answer=\1"),
)
_ONE = re.compile(r"\b(?:one|single|an?) (user|person|client|dev|developer|engineer|programmer)\b")


@dataclass(frozen=True)
class Kind:
    """A load that has a name. Lengths in tokens; `cached`: which share of a prompt the prefix cache holds already."""

    prompt: int
    answer: int
    cached: float = 0.0


#: Names -> what is taken for them; each answer says these numbers.
KINDS: Mapping[str, Kind] = {
    "chat": Kind(1000, 300),
    "coding agent": Kind(16_000, 500, 0.75),
    "long documents": Kind(30_000, 500),
}
_NAMES = {
    "chat": r"chat(?:ting|s)?",
    "coding agent": r"(?:coding agents?|agents?|coding|claude code)",
    "long documents": r"(?:long )?(?:documents?|docs|rag)",
}


@dataclass(frozen=True)
class Load:
    """Users who ask at the same time; tokens of each prompt and answer; `cached`: share of a prompt that the prefix
    cache holds. `asks_how_many`: the number of users is what is asked for.
    """

    users: int
    prompt: int = 1024
    answer: int = 256
    target: Slo | None = None
    best: str = "whole"
    cached: float = 0.0
    called: str = field(default="", compare=False)
    asks_how_many: bool = field(default=False, compare=False)

    def at(self, users: int) -> Load:
        """The same of another number of users."""
        return replace(self, users=users)

    def missed(self, ttft: float, pace: float) -> float:
        """A first token after so long and so many seconds a token behind it, as times of the target; the worst part."""
        if self.target is None:
            return 0.0
        took = {"ttft_s": ttft, "tpot_s": pace, "e2e_s": ttft + (self.answer - 1) * pace}
        wanted: dict[str, float | None] = {name: getattr(self.target, name) for name in took}
        return max(took[name] / limit for name, limit in wanted.items() if limit is not None)

    def __str__(self) -> str:
        users = "1 user" if self.users == 1 else f"{self.users} users at once"
        name = f"{self.called}, " if self.called else ""
        cached = f" ({self.cached:.0%} of them cached)" if self.cached else ""
        return f"{name}{users}, {self.prompt:,} tokens in{cached}, {self.answer:,} out"


def read(text: str, environment: Mapping[str, str] | None = None) -> Load:
    """Raises Refusal with every fault, one line each. `environment`: what make was given, where a load that is cut
    short leaves its rest.
    """
    _is_whole(environment or {})
    words, called = _plain(text)
    kind = KINDS.get(called, Kind(Load(1).prompt, Load(1).answer))
    values: dict[str, float] = {}
    times: list[str] = []
    best, seen, findings = "whole", set[str](), list[Finding]()
    unknown = dict[str, str]()
    for word in words:
        name, _, value = word.partition("=")
        problem = remedy = ""
        if name not in _WORDS:
            meant = nearest(name, (*_WORDS, *KINDS), _known())
            # "10 lawyers chat": users by another word.
            if called and words[0].startswith("users="):
                meant = f"write: `{words[0].removeprefix('users=')} users {called}`"
            unknown[name] = meant
        elif name in seen:
            problem, remedy = f"`{name}` is there twice", "say it once"
        elif name in _READERS:
            problem, remedy = _READERS[name](name, value, values)
        elif name == "best" and value not in BEST:
            problem, remedy = f"no figure is named `{value}`", nearest(value, BEST, f"one of: {', '.join(BEST)}")
        elif name == "best":
            best = value
        else:
            times.append(word)
        seen.add(name)
        if problem:
            findings.append(Finding("load", problem, remedy))
    if unknown:
        what = "is no word" if len(unknown) == 1 else "are no words"
        # One line, however many: a sentence is no load.
        remedy = next(iter(unknown.values())) if len(unknown) == 1 else f"{_known()}; {EXAMPLE}"
        findings.append(Finding("load", f"{', '.join(f'`{each}`' for each in unknown)} {what} of a load", remedy))
    if {"each", "tpot"} <= seen:
        findings.append(Finding("load", "`each` and `tpot` are the same target in two words", "say one of them"))
    target = _target(times, values.pop("each", None), findings)
    asks = "users" not in seen and target is not None
    if "users" not in seen and not asks and not unknown:
        findings.append(Finding("load", "says no number of users, and no target that limits them", EXAMPLE))
    if findings:
        raise Refusal(*findings)
    return Load(
        users=int(values.get("users", 1)),
        prompt=int(values.get("prompt", kind.prompt)),
        answer=int(values.get("answer", kind.answer)),
        target=target,
        best=best,
        cached=values.get("cached", kind.cached),
        called=called,
        asks_how_many=asks,
    )


def _known() -> str:
    return f"they are: {', '.join(_WORDS)}; loads with a name are: {', '.join(KINDS)}"


def _is_whole(environment: Mapping[str, str]) -> None:
    """Without quotes make takes the second word for a variable of its own, and nobody would miss it."""
    given = environment.get("MAKEFLAGS", "")
    lost = [name for name in _WORDS if name in environment and f" {name}=" in f" {given}"]
    if lost:
        said = " ".join(f"{name}={environment[name]}" for name in lost)
        problem = f"was cut at its first space: `{said}` came beside it"
        raise Refusal(Finding("load", problem, f'put quotes round all of it: LOAD="users=8 {said}"'))


def _plain(text: str) -> tuple[list[str], str]:
    """Our words for what was written, and the load's name in it."""
    plain = re.sub(r",(?!\d{3}\b)", " ", text.lower())
    plain = _ONE.sub(r"1 \1", " ".join(plain.split()))
    called = ""
    for name, spelled in _NAMES.items():
        found = re.sub(rf"(?<![=\w]){spelled}(?![=\w])", " ", plain, count=1)
        if found != plain and not called:
            called, plain = name, found
    plain = " ".join(plain.split())
    for spoken, ours in _SPOKEN:
        plain = re.sub(rf"(?<![=\w]){spoken}(?![=\w])", ours, plain)
    words = [word for word in plain.split() if word not in ("with", "for", "and", "of")]
    if words and re.fullmatch(_NUMBER, words[0]):
        words[0] = f"users={words[0]}"
    return words, called


def _count(name: str, value: str, into: dict[str, float]) -> tuple[str, str]:
    """Takes a number, or says what is wrong with it and what to write."""
    found = re.fullmatch(_NUMBER, value, re.ASCII)
    amount = float(f"{found[1].replace(',', '')}.{found[2] or 0}") * _SCALE[found[3]] if found else 0.0
    if not found or not 1 <= amount <= _COUNTS[name] or amount != int(amount):
        what = "users" if name == "users" else "tokens"
        return f"{name}=`{value}` is no number of {what}", f"1 to {_COUNTS[name]}, 4k is 4,000; {EXAMPLE}"
    into[name] = amount
    return "", ""


def _share(name: str, value: str, into: dict[str, float]) -> tuple[str, str]:
    found = re.fullmatch(r"(\d{1,2})%", value, re.ASCII)
    if not found:
        return f"{name}=`{value}` is no share of a prompt", "0% to 99%: what the prefix cache holds already"
    into[name] = int(found[1]) / 100
    return "", ""


def _speed(name: str, value: str, into: dict[str, float]) -> tuple[str, str]:
    found = re.fullmatch(r"(\d{1,4}(?:\.\d{1,3})?)(?:tok/s|t/s)?", value, re.ASCII)
    if not found or not float(found[1]):
        return f"{name}=`{value}` is no speed", "tokens a second that each user shall have, e.g. each=10"
    into[name] = float(found[1])
    return "", ""


_READERS: Mapping[str, Callable[[str, str, dict[str, float]], tuple[str, str]]] = {
    **dict.fromkeys(_COUNTS, _count),
    "cached": _share,
    "each": _speed,
}


def _target(times: list[str], each: float | None, findings: list[Finding]) -> Slo | None:
    try:
        found = Slo.of(" ".join(times))
    except Refusal as refusal:
        findings += [
            replace(fault, where="load", remedy=f"a number above 0 with s or ms, {EXAMPLE}")
            for fault in refusal.findings
        ]
        return None
    return found if each is None else replace(found or Slo(), tpot_s=1 / each)
