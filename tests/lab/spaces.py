"""Network namespaces by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.shell import run


def ensure(name: str) -> None:
    """Make one, its loopback up; one that is there stays."""
    if name not in names():
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")


@contextmanager
def made(*wanted: str) -> Iterator[None]:
    """Make them for as long as it lasts, each with its loopback up."""
    try:
        for name in wanted:
            ensure(name)
        yield
    finally:
        for name in set(wanted) & set(names()):
            run("ip", "netns", "del", name)


def names() -> list[str]:
    """All that have a name."""
    return [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line.strip()]
