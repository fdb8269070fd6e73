"""The load that is asked about: `users=8 prompt=1024 answer=256 ttft=2s`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from bench.slo import Slo
from operations.plan.refusal import Finding, Refusal, nearest

EXAMPLE = 'e.g. LOAD="users=8 prompt=1024 answer=256 ttft=2s"'
_COUNTS = {"users": 4096, "prompt": 10_000_000, "answer": 1_000_000}
_TIMES = ("ttft", "tpot", "e2e")
#: What may matter most -> in words.
BEST = {
    "whole": "the whole answer soonest",
    "ttft": "the first token soonest",
    "decode": "the most tokens of answers a second",
    "prefill": "the most tokens of prompts a second",
}
_WORDS = (*_COUNTS, *_TIMES, "best")


@dataclass(frozen=True)
class Load:
    """Users who ask at the same time; tokens of each prompt and answer."""

    users: int
    prompt: int = 1024
    answer: int = 256
    target: Slo | None = None
    best: str = "whole"

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
        return f"{users}, {self.prompt:,} tokens in, {self.answer:,} out"


def read(text: str) -> Load:
    """Raises Refusal with every fault, one line each."""
    counts: dict[str, int] = {}
    times, best = [], "whole"
    findings, seen = [], set()
    for word in text.replace(",", " ").split():
        name, _, value = word.partition("=")
        problem = remedy = ""
        if name not in _WORDS:
            problem, remedy = f"`{name}` is no word of a load", nearest(name, _WORDS, f"they are: {', '.join(_WORDS)}")
        elif name in seen:
            problem, remedy = f"`{name}` is there twice", "say it once"
        elif name in _COUNTS:
            problem, remedy = _count(name, value, counts)
        elif name == "best" and value not in BEST:
            problem, remedy = f"no figure is named `{value}`", nearest(value, BEST, f"one of: {', '.join(BEST)}")
        elif name == "best":
            best = value
        else:
            times.append(word)
        seen.add(name)
        if problem:
            findings.append(Finding("LOAD", problem, remedy))
    if "users" not in seen:
        findings.append(Finding("LOAD", "says no number of users", EXAMPLE))
    target = None
    try:
        target = Slo.of(" ".join(times))
    except Refusal as refusal:
        findings += [
            replace(each, where="LOAD", remedy=f"a number above 0 with s or ms, {EXAMPLE}") for each in refusal.findings
        ]
    if findings:
        raise Refusal(*findings)
    return Load(**counts, target=target, best=best)


def _count(name: str, value: str, into: dict[str, int]) -> tuple[str, str]:
    """Takes a number, or says what is wrong with it and what to write."""
    if not re.fullmatch(r"[0-9]{1,9}", value) or not 1 <= int(value) <= _COUNTS[name]:
        return (
            f"{name}=`{value}` is no number of {'users' if name == 'users' else 'tokens'}",
            f"1 to {_COUNTS[name]}, {EXAMPLE}",
        )
    into[name] = int(value)
    return "", ""
