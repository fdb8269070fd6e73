"""Times of one request that several figures are made of."""

from __future__ import annotations

from bench.records import Request


def behind_first(request: Request) -> int:
    """Tokens of the answer behind its first, as the server counted them."""
    return max((request.answer_tokens or 0) - 1, 0)


def last_text(request: Request) -> float:
    """When the last text came: what follows it (the counts, the end of the stream) is no token's time."""
    return request.pieces_s[-1] if request.pieces_s else request.done_s


def seconds_a_token(request: Request) -> float | None:
    """Seconds a token behind the first (TPOT); None where there was none, or no count."""
    behind = behind_first(request)
    if request.first_s is None or not behind:
        return None
    took = last_text(request) - request.first_s
    return took / behind if took > 0 else None
