"""What several files share (tests/conftest.py has which): a real LiteLLM costs 8 s of CPU until it answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bench.routing.doors import Door
from tests.node.firewall_site import Site, built
from tests.node.litellm_proxy import Proxy, running
from tests.node.scripted import scripted_door


@pytest.fixture(scope="session")
def whole_litellm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """With all of its routes, as its container has it."""
    with running(tmp_path_factory.mktemp("proxy")) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """LiteLLM before a `ScriptedDouble`."""
    with scripted_door(tmp_path_factory.mktemp("litellm")) as door:
        yield door


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose node has no firewall, for a file of tests."""
    with built(tmp_path_factory.mktemp("firewall")) as site:
        yield site


@pytest.fixture
def site(standing: Site) -> Iterator[Site]:
    """The same with the files of a firewall, which is dropped behind each test."""
    standing.render()
    yield standing
    standing.sh("drop")
