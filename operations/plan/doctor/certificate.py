"""The certificate of each proxy: how long it is good for."""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.config.kind import Kind
from operations.plan.doctor.symptom import BAD, REMARK, Seen, Symptom, found
from operations.plan.services.tls import RENEW_DAYS

#: Days from which nobody should wait any more.
SOON_DAYS = 7
_REMEDY = "`tandem apply` renews one of Tandem's authority; with tls=files:... put a new pair there first"
ENDS = Kind(
    "certificate-ends",
    "the proxy's certificate ends in {days:.0f} days",
    "after that clients refuse the proxy",
    _REMEDY,
)
ENDED = Kind(
    "certificate-ended",
    "the proxy's certificate has ended {days:.0f} days ago",
    "clients refuse the proxy",
    _REMEDY,
)


def judge(seen: Seen) -> Iterator[Symptom]:
    """Nodes without one have nothing to say."""
    for node, told in seen.topic(lambda look: look.get("certificate")):
        days = told.get("days")
        if days is None or days >= RENEW_DAYS:
            continue
        yield found(ENDS if days > 0 else ENDED, BAD if days < SOON_DAYS else REMARK, node, days=abs(days))
