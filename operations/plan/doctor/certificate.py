"""The certificate of each proxy: how long it is good for."""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.doctor.symptom import BAD, REMARK, Seen, Symptom
from operations.plan.services.tls import RENEW_DAYS

#: Days from which nobody should wait any more.
SOON_DAYS = 7
_REMEDY = "`tandem apply` renews one of Tandem's authority; with tls=files:... put a new pair there first"


def judge(seen: Seen) -> Iterator[Symptom]:
    """Nodes without one have nothing to say."""
    for node, told in seen.topic("certificate"):
        days = told.get("days")
        if days is None or days >= RENEW_DAYS:
            continue
        said = f"ends in {days:.0f} days" if days > 0 else f"has ended {-days:.0f} days ago"
        means = "clients refuse the proxy" if days <= 0 else "behind that clients refuse the proxy"
        severity = BAD if days < SOON_DAYS else REMARK
        yield Symptom(severity, (node,), f"the proxy's certificate {said}", means, _REMEDY)
