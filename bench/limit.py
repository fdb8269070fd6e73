"""What the client itself can do, measured against a server that costs nothing."""

from __future__ import annotations

import subprocess
import sys

from bench.client.shapes import Turn
from bench.process import ROOT, Client, here

#: Streams at once, and pieces of each, for the second figure; requests of one piece for the first.
STREAMS, PIECES, REQUESTS = 64, 64, 256
#: Share of the limit above which a figure may be the client's.
NEAR = 0.5


def measure() -> tuple[float, float]:
    """Requests a second and pieces a second of a client on this machine."""
    argv = [sys.executable, "-m", "bench.free"]
    free = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert free.stdout is not None
        url = f"http://127.0.0.1:{int(free.stdout.readline())}/v1"
        with here() as client:
            # Once to have everything loaded and compiled.
            _rate(client, url, 16, 1)
            requests = _rate(client, url, REQUESTS, 1)
            return requests, _rate(client, url, STREAMS, PIECES) * PIECES
    finally:
        free.kill()
        free.communicate()


def _rate(client: Client, url: str, requests: int, tokens: int) -> float:
    """Requests a second."""
    turn: Turn = {"messages": [{"role": "user", "content": "go"}], "max_tokens": tokens, "exact": True}
    errors: list[str] = []
    done = client.order(
        "load",
        lambda request: errors.append(request["error"]) if request["error"] else None,
        url=url,
        key="",
        model="free",
        users=min(requests, STREAMS),
        conversations=[[turn]] * requests,
        extra={},
        timeout_s=60,
    )
    assert not errors, errors
    return requests / float(done["took_s"])


def near(pieces: int, requests: int, seconds: float, limit: tuple[float | None, float | None]) -> float:
    """The share of the client's limit that a step has taken; 0 where no limit is known."""
    shares = [count / seconds / most for count, most in zip((requests, pieces), limit, strict=True) if most and seconds]
    return sum(shares)
