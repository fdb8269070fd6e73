"""A test alarm through this node's Alertmanager, and what became of it."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections import Counter
from datetime import datetime, timedelta, timezone
from http.client import HTTPException
from pathlib import Path

from operations.node.commands import read
from operations.node.monitoring.monitors import OPENER, address_of
from operations.node.unit import cause, services
from operations.paths import ALERTMANAGER, folder_of
from operations.wire.unit import AlarmTold

RECEIVERS = Path(folder_of(ALERTMANAGER)) / "receivers.json"
#: Seconds after which the alarm is over, and those who receive it are told so.
LASTS_S = 15
#: Kind of a receiver -> what Alertmanager calls it.
_CALLED = {"webhook": "webhook", "ntfy": "webhook", "email": "email"}
_COUNT = re.compile(r'^alertmanager_(notification\w+_total)\{[^}]*integration="(\w+)"[^}]*\} (\S+)$', re.MULTILINE)


def main(node: str, model: str, wait_s: float = 30) -> AlarmTold:
    """`receivers`: kind and address of each; `waits`, `failed`: how many have not been told, and how many could not be,
    by what Alertmanager calls them; `why`: its own last word. `problem`: no alarm could be handed to it.
    """
    address = address_of(ALERTMANAGER)
    if not address:
        return {"problem": "no Alertmanager of Tandem's is here"}
    receivers = json.loads(read(RECEIVERS) or "[]")
    wanted = Counter(_CALLED[each["kind"]] for each in receivers)
    url = f"http://{address}"
    try:
        before = _counts(url)
        _raise(url, node, model)
        waits, failed, until = wanted, Counter[str](), time.monotonic() + wait_s
        while time.monotonic() < until:
            now = _counts(url)
            told, failed = _told(before, now), _more(before, now, "notifications_failed_total")
            waits = wanted - told
            # One may be told of another alarm meanwhile, in the place of one that refuses and is tried on.
            refused = +_more(before, now, "notification_requests_failed_total")
            if (not waits and not refused) or (+failed and told + failed >= wanted):
                break
            time.sleep(0.5)
    except (OSError, HTTPException, ValueError) as error:
        return {"problem": f"Alertmanager does not answer: {getattr(error, 'reason', error)}"}
    return {
        "receivers": receivers,
        "waits": dict(waits),
        "failed": dict(+failed),
        "why": _why() if waits or +failed else "",
    }


def _raise(url: str, node: str, model: str) -> None:
    now = datetime.now(timezone.utc)
    alarm = {
        "labels": {"alertname": "TandemTest", "severity": "test", "node": node, "model": model, "at": now.isoformat()},
        "annotations": {
            "model": model,
            "summary": f"a test of the alarms, from {node}",
            "next": "nothing: `tandem alarm-test` was asked for",
        },
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(seconds=LASTS_S)).isoformat(),
    }
    body, headers = json.dumps([alarm]).encode(), {"Content-Type": "application/json"}
    with OPENER.open(urllib.request.Request(f"{url}/api/v2/alerts", body, headers), timeout=10):
        pass


def _counts(url: str) -> dict[tuple[str, str], float]:
    """(counter, integration) -> its value."""
    with OPENER.open(f"{url}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found: Counter[tuple[str, str]] = Counter()
    for name, integration, value in _COUNT.findall(text):
        found[name, integration] += float(value)  # type: ignore[assignment]
    return dict(found)


def _more(before: dict[tuple[str, str], float], now: dict[tuple[str, str], float], name: str) -> Counter[str]:
    return Counter({key[1]: int(value - before.get(key, 0)) for key, value in now.items() if key[0] == name})


def _told(before: dict[tuple[str, str], float], now: dict[tuple[str, str], float]) -> Counter[str]:
    """How many have taken it: what was asked of them, less what they have refused."""
    return _more(before, now, "notification_requests_total") - _more(before, now, "notification_requests_failed_total")


def _why() -> str:
    log = cause.log_of(ALERTMANAGER, services.unit_states([ALERTMANAGER])[ALERTMANAGER])
    return cause.telling(log, (r'\berr="',))
