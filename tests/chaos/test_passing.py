"""What is told of a door that is shut for a while."""

from __future__ import annotations

import time

from tests.chaos.passing import passing
from tests.support.ports import free_port
from tests.support.serving import Quiet, serving


class DoorDouble(Quiet):
    """Says that it is up, or down."""

    status = 200

    def do_GET(self) -> None:
        self.reply(status=type(self).status)


def test_the_longest_time_in_which_nothing_passed_is_told() -> None:
    with serving(DoorDouble) as url, passing(f"{url}/v1") as door:
        time.sleep(1)
        before = door.shut_s
        DoorDouble.status = 503
        time.sleep(2)
        DoorDouble.status = 200
        time.sleep(1)
    assert before < 1 and 1.9 < door.shut_s < 4


def test_a_door_that_stays_shut_is_told_at_the_end() -> None:
    with passing(f"http://127.0.0.1:{free_port()}/v1") as door:
        time.sleep(1)
    assert door.shut_s >= 1
