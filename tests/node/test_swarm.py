"""Who a worker takes its files from, while other workers answer, are silent or are gone."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from operations.node.copy.source import Source
from operations.node.copy.swarm import Swarm

FILES = {f"model-{number}": f"blob-{number}" for number in range(6)}


@pytest.fixture
def silent() -> Iterator[Source]:
    """A worker that takes a connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Source(["127.0.0.1"], server.getsockname()[1], part=1)


def test_a_worker_that_is_silent_makes_nobody_wait(silent: Source) -> None:
    swarm = Swarm(Source(["127.0.0.1"], 9), [silent], 0, FILES, list(FILES))
    time.sleep(0.1)
    began = time.monotonic()
    task = swarm.take(True)
    assert task and task.name == "model-0"
    swarm.landed(task)
    # Asking a worker that is silent takes 2 s.
    assert time.monotonic() - began < 1.5


def test_a_part_whose_worker_does_not_answer_is_taken_from_the_head() -> None:
    head = Source(["127.0.0.1"], 9)
    gone = Source(["127.0.0.1"], 1, part=1)
    swarm = Swarm(head, [gone], 0, FILES, list(FILES))
    swarm._began -= 60
    taken: list[str] = []
    while len(taken) < len(FILES) and (task := swarm.take(True)):
        taken.append(task.name)
        assert task.source is head
        swarm.landed(task)
    assert sorted(taken) == sorted(FILES)
