"""Network namespaces by name."""

from __future__ import annotations

from tests.lab.shell import run


def ensure(name: str) -> None:
    """Make one, its loopback up; one that is there stays."""
    if name not in names():
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")


def names() -> list[str]:
    """All that have a name."""
    return [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line.strip()]
