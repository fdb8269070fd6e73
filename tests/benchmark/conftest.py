"""Two nodes for whole runs of the bench."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmark.nodes import Nodes, nodes


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Nodes]:
    with nodes(tmp_path) as found:
        yield found
