"""What is drawn and whom alarms are sent to."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    # Python 3.10 has it not, and nothing here is looked at while a program runs.
    from typing import NotRequired


class Exported(TypedDict):
    """Where the exporter of a node listens, or empty (operations/node/monitoring/exported.py)."""

    address: str


class Metrics(TypedDict, total=False):
    """The metrics of a panel: `over` is what a ratio is divided by."""

    metric: str
    over: str


#: A panel of files/monitoring/panels.yml (plan/services/panels.py, files/page/figures.py say what the words mean).
#: `expr`: its PromQL, and `long` that of spans whose points are far apart; `or`: what other engines call its metrics.
Panel = TypedDict(
    "Panel",
    {
        "id": str,
        "title": str,
        "unit": str,
        "kind": str,
        "metric": str,
        "by": list[str],
        "over": "NotRequired[str]",
        "of": "NotRequired[str]",
        "quantile": "NotRequired[float]",
        "scale": "NotRequired[float]",
        "over_time": "NotRequired[str]",
        "expr": "NotRequired[str]",
        "long": "NotRequired[str]",
        "or": "NotRequired[list[Metrics]]",
    },
)

#: Whom alarms are sent to, as the knob `alarms` has it (plan/config/alarms.py reads it strictly): one of the first
#: three names it. Files are the owner's, with a secret in them; `plain`: without TLS.
AlarmReceiver = TypedDict(
    "AlarmReceiver",
    {
        "webhook": str,
        "ntfy": str,
        "email": str,
        "token_file": str,
        "from": str,
        "smtp": str,
        "user": str,
        "password_file": str,
        "plain": bool,
    },
    total=False,
)
