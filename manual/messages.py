"""docs/messages.md: every finding that has a code, and every alarm; what it means, and what helps."""

from __future__ import annotations

from manual.markdown import escaped
from operations.plan.doctor.findings import KINDS
from operations.plan.services.rules import alarms

HEAD = """# Findings

Made of the kinds of findings in `operations/plan`, and of `files/monitoring/rules.yml`, by `make manual-pages`.

A finding is something that a deploy or `tandem doctor` sees on your nodes, or between them. Its code stands in brackets
behind the line. Look it up here, or say `tandem explain CODE`. `<name>` stands for what only the finding knows.

What stands in the way of a deploy ends it before its first change. Put it right, and say `tandem apply` again.

A refused knob, recipe or word has no code: the line says what was expected, and what to write. Nor has what Docker, the
engine, the Hub or the kernel says, which is quoted.

[Alarms](#alarms) are looked up by their names in the same way.
"""
ALARMS = """## Alarms

What [monitoring](monitoring.md#alarms) sends. `tandem explain NAME` says the same.
"""
#: Headings, with the first words of the codes below each.
TOPICS = {
    "Reaching a node": ("reach",),
    "The node": ("node", "port", "heat", "software"),
    "Docker": ("docker",),
    "The GPU": ("gpu",),
    "Memory": ("memory",),
    "Disks": ("disk",),
    "Secrets and sources": ("secret", "source"),
    "Cables and rails": ("cable", "rail", "ring"),
    "The office's network": ("login", "netplan", "firewall", "address"),
    "RDMA and NCCL": ("rdma", "nccl"),
    "Clocks": ("clock",),
    "Certificates": ("certificate",),
    "Prefix caches": ("prefix",),
    "The kernel's log": ("log",),
}


def page() -> str:
    """The whole page. Raises LookupError for a code without a topic."""
    if lost := [code for code in KINDS if not any(_topic(code) in words for words in TOPICS.values())]:
        raise LookupError(f"{', '.join(lost)}: name a topic in manual/messages.py")
    lines = [HEAD]
    for title, words in TOPICS.items():
        lines += [f"## {title}\n"]
        for code in sorted(each for each in KINDS if _topic(each) in words):
            lines += [f"### {code}\n", _told(*KINDS[code].explained())]
    lines += [ALARMS]
    for name, alarm in alarms().items():
        lines += [f"### {name}\n", _told(*alarm)]
    return "\n".join(lines).rstrip() + "\n"


def _topic(code: str) -> str:
    return code.partition("-")[0]


def _told(*texts: str) -> str:
    seen, means, remedy = map(escaped, texts)
    parts = (seen, means and f"It means: {means}", remedy and f"→ {remedy}")
    return "<br>\n".join(filter(None, parts)) + "\n"
