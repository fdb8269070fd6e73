"""The target that a request meets or not: `ttft=2s tpot=100ms e2e=30s`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench.records import Request
from bench.timing import seconds_a_token
from operations.plan.config.refusal import Finding, Refusal, nearest

_PARTS = ("ttft", "tpot", "e2e")
_UNITS = {"ms": 0.001, "s": 1.0}
_WANTED = 'e.g. "ttft=2s tpot=100ms": time to the first token, seconds a token behind it, and e2e in all'


@dataclass(frozen=True)
class Slo:
    """Seconds; None: not asked for."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    @classmethod
    def of(cls, text: str) -> Slo | None:
        """As the owner writes it; None for nothing. Raises Refusal."""
        parts: dict[str, float] = {}
        for word in text.split():
            name, _, value = word.partition("=")
            if name not in _PARTS:
                raise _no(f"`{word}` is no part of a target", nearest(name, _PARTS, _WANTED))
            if name in parts:
                raise _no(f"`{name}` is there twice", "say it once")
            found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s)", value)
            if not found or not float(found[1]):
                raise _no(f"`{word}` is no time", f"a number above 0 with s or ms, {_WANTED}")
            parts[name] = float(found[1]) * _UNITS[found[2]]
        return cls(**{f"{name}_s": value for name, value in parts.items()}) if parts else None

    def met(self, request: Request) -> bool:
        """Whether a request was as good as this in every part; one without a whole answer was not."""
        if request.error or request.first_s is None:
            return False
        pace = seconds_a_token(request)
        return (
            (self.ttft_s is None or request.first_s - request.sent_s <= self.ttft_s)
            and (self.tpot_s is None or pace is None or pace <= self.tpot_s)
            and (self.e2e_s is None or request.done_s - request.sent_s <= self.e2e_s)
        )


def _no(problem: str, remedy: str) -> Refusal:
    return Refusal(Finding("--slo", problem, remedy))
