"""What a contributor runs for a change: the tests that are near to it."""

from __future__ import annotations

import pytest

from tests.conftest import SHARES
from tests.plan.samples import ROOT
from tests.touched import touched


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("operations/plan/services/demand.py", "tests/plan/test_demand.py"),
        ("operations/node/door/keys.py", "tests/node/test_keys.py"),
        ("files/canary/engine.py", "tests/node/test_canary_engine.py"),
        ("files/litellm/door.py", "tests/node/test_door.py"),
        ("tests/node/door_double.py", "tests/node/test_door.py"),
        ("tests/plan/test_demand.py", "tests/plan/test_demand.py"),
    ],
)
def test_a_change_touches_the_tests_beside_it(path: str, test: str) -> None:
    assert test in touched([path])


def test_the_nearest_come_first_and_the_rest_is_left_to_the_whole_run() -> None:
    found = touched(["operations/plan/services/demand.py"])
    assert found.index("tests/plan/test_demand.py") < 3 and "tests/node/test_hub.py" not in found
    assert touched(["operations/none.py"]) == []


def test_files_that_share_a_litellm_are_where_the_scheduler_looks_for_them() -> None:
    assert [file for pair in SHARES.items() for file in pair if not (ROOT / file).is_file()] == []
    # None shares with one that shares itself.
    assert not {*SHARES} & {*SHARES.values()}
