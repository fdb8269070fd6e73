"""How tests are handed out to several processes (`pytest -n`): file by file, since tests of one file share ports.

How many inputs hypothesis makes for each of its tests. Where each of them begins. Which are tried again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("gate", max_examples=60)
#: `make test-long`.
settings.register_profile("deep", max_examples=1000)
settings.load_profile("gate")
#: A file -> the one whose real LiteLLM or port it shares: one process has both, one after the other.
SHARES = {
    "tests/node/test_hub_still.py": "tests/node/test_hub.py",
    "tests/node/test_door_litellm.py": "tests/node/test_confined_litellm.py",
    "tests/node/test_protocols_litellm.py": "tests/node/test_passthrough_litellm.py",
}
#: Further tries of a test, and of one on the lab. A busy machine may make seconds untrue, and not each time.
TRIES, LAB_TRIES, TRIES_DELAY_S = 2, 1, 5


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A try that failed is a line RERUN in what pytest says."""
    for item in items:
        # One on machines takes minutes, and stands on what the one before has left.
        if item.get_closest_marker("machines"):
            continue
        tries = LAB_TRIES if item.get_closest_marker("lab") else TRIES
        item.add_marker(pytest.mark.flaky(reruns=tries, reruns_delay=TRIES_DELAY_S))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`; None: xdist's own way."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Sharing(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return SHARES.get(file, file)

    return Sharing(config, log)


@pytest.fixture(autouse=True)
def the_place_of_before() -> Iterator[None]:
    """`tandem -C FOLDER` goes to another folder; programs that later tests start are found from the tree's root."""
    before = os.getcwd()
    yield
    os.chdir(before)
