"""Stages for the tests of `tandem init`: they want root, for namespaces, and OpenSSH's server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.init.stage import SSHD, Stage


@pytest.fixture
def factory() -> Iterator[Stage]:
    """Two Sparks as they come: a login with a password, no key, sudo with a password; nobody knows their host keys."""
    if os.geteuid() != 0:
        pytest.skip("makes network namespaces")
    if not SSHD:
        pytest.skip("needs sshd (apt install openssh-server)")
    # pytest's own folders are its owner's alone, and the nodes' login is another one.
    with TemporaryDirectory(prefix="tandem-stage-") as place:
        yield Stage(Path(place))


@pytest.fixture
def ready(factory: Stage) -> Stage:
    """The same, after all mends, with names that the laptop knows."""
    factory.resolve()
    factory.let_in()
    return factory
