"""Before a LiteLLM is renewed: the proxy sends it nothing more, and what is under way in it ends."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Sequence

from operations.node.door.speaking import opened
from operations.wire.unit import Drained

#: Seconds for a word with HAProxy or with a LiteLLM's pulse.
WORD_S = 5.0
#: Seconds between two looks.
LOOK_S = 0.5
#: Seconds for one that answers to take a new configuration up.
TAKE_S = 5.0
#: Seconds without a word of the one that is renewed, after which nobody has to take its place first.
SILENT_S = 10.0
#: In HAProxy's `srv_admin_state`: told to drain, by its socket.
_DRAINED = 0x08
#: In `srv_op_state`: its checks have said often enough that it is up.
_RUNS = 2


def main(
    admin: str = "",
    server: str = "",
    pulse: str = "",
    others: Sequence[str] = (),
    patience_s: float = 0,
    drain_s: float = 0,
    wanted: str = "",
) -> Drained:
    """With `wanted`, the hash of a configuration: `taken`, whether it is in force (1, 0). Else

    `left`: requests that are still under way after `drain_s`; 0: none, or it does not say (it hangs or is dead).

    It waits at first for up to `patience_s` until one of the `others` (pulses) takes requests and HAProxy has seen so,
    which asks twice before it sends any: else none would get one. Where none does it goes on, undrained: `alone`. One
    that serves nobody itself is not kept for that.
    """
    if wanted:
        return {"taken": int(taken(pulse, wanted, patience_s))}
    said = time.monotonic()
    deadline = said + patience_s
    while others and not _somebody_else(admin, server, others):
        if _servers(admin) and under_way(pulse) is not None:
            said = time.monotonic()
            if said >= deadline:
                return {"left": 0, "alone": 1}
        elif time.monotonic() >= min(said + SILENT_S, deadline):
            break
        time.sleep(LOOK_S)
    if not say(admin, f"set server {server} state drain"):
        # No proxy runs: nobody is sent anywhere.
        return {"left": 0}
    deadline = time.monotonic() + drain_s
    while (left := under_way(pulse)) and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    return {"left": left or 0}


def say(admin: str, word: str) -> bool:
    """Give HAProxy a command (`set server litellm/litellm-a state drain`) on its admin socket `admin`.

    Returns whether HAProxy took it: it answers such commands with an empty line, and a refusal with words. False also
    where it does not answer within WORD_S seconds (HAProxy's management guide, "Unix Socket commands").
    """
    said = _told(admin, word)
    return said is not None and not said.strip()


def kept_out(admin: str) -> list[str]:
    """The servers that HAProxy was told to send nothing more, `BACKEND/NAME`; none where it does not say."""
    return [name for name, state in _servers(admin).items() if int(state["srv_admin_state"]) & _DRAINED]


def _somebody_else(admin: str, server: str, others: Sequence[str]) -> bool:
    """Whether another one takes requests, and gets them."""
    servers = _servers(admin)
    rest = [state for name, state in servers.items() if name != server]
    gets = any(int(each["srv_op_state"]) == _RUNS and not int(each["srv_admin_state"]) for each in rest)
    return (gets or not servers) and any(under_way(other) is not None for other in others)


def _servers(admin: str) -> dict[str, dict[str, str]]:
    """`BACKEND/NAME` -> what HAProxy knows of it ("show servers state" in its management guide); empty: no answer."""
    rows = [line.split() for line in (_told(admin, "show servers state") or "").splitlines()]
    names = next((row[1:] for row in rows if row[:1] == ["#"]), [])
    found = [dict(zip(names, row, strict=False)) for row in rows if row[1:] and row[0].isdigit()]
    return {f"{each['be_name']}/{each['srv_name']}": each for each in found}


def _told(admin: str, word: str) -> str | None:
    """What HAProxy says to a word; None: nothing, or there is none."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(WORD_S)
        try:
            channel.connect(admin)
            channel.sendall(f"{word}\n".encode())
            return b"".join(iter(lambda: channel.recv(65536), b"")).decode()
        except OSError:
            return None


def under_way(pulse: str) -> int | None:
    """Requests that a LiteLLM has; None: it takes none (it starts, hangs or is dead)."""
    try:
        with opened(pulse, WORD_S) as answer:
            return int(answer.read().split()[0])
    except (OSError, http.client.HTTPException, ValueError, IndexError):
        return None


def configured(pulse: str) -> str:
    """The hash of the configuration whose engines a LiteLLM has; empty: it does not say."""
    try:
        with opened(pulse, WORD_S) as answer:
            words = answer.read().decode().split()
    except (OSError, http.client.HTTPException, ValueError):
        return ""
    return words[1] if len(words) > 1 else ""


def taken(pulse: str, wanted: str, patience_s: float) -> bool:
    """Whether it has taken up that configuration; one that starts is waited for."""
    deadline = time.monotonic() + patience_s
    while (has := configured(pulse)) != wanted:
        # One that answers looks at its file twice a second.
        if has:
            deadline = min(deadline, time.monotonic() + TAKE_S)
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_S)
    return True
