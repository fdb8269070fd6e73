"""The watcher of the cables: a node that takes an interface down, or up again, does so to the other node's carrier.

`python -m tests.lab.watch` runs in the namespace of the fabric from `up` to `down`. A veth's carrier can't be set from
outside, so whenever an interface anywhere changes, the outer ends are set to what the cables say (network.settle).
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.lab import network, processes
from tests.lab.settings import FABRIC_NAMESPACE, HOME
from tests.lab.shell import LabError, say

MODULE = "tests.lab.watch"
_RTMGRP_LINK = 1
_SOL_NETLINK, _NETLINK_LISTEN_ALL_NSID = 270, 8


def start() -> None:
    """A new watcher in place of the one that is there; it belongs to no node's control group.

    Where nothing is seen from outside there is none, and the other lab's is left alone.
    """
    if not network.WIRES.IS_WATCHED:
        return
    end()
    with (HOME / "watch.log").open("a") as log:
        subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{FABRIC_NAMESPACE}", sys.executable, "-m", MODULE],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=Path(__file__).parents[2],
        )


def end() -> None:
    """End it, also one that an `up` left that was killed."""
    if network.WIRES.IS_WATCHED:
        processes.kill(_is_it)


def is_running() -> bool:
    """Whether cables are watched."""
    return bool(processes.matching(_is_it))


def _is_it(argv: list[str]) -> bool:
    return "-m" in argv and MODULE in argv


def main() -> None:
    """Settle once, and then after each change, for ever."""
    events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    events.bind((0, _RTMGRP_LINK))
    # Every node's namespace has a wire that ends in this one, so their events are told here as well.
    events.setsockopt(_SOL_NETLINK, _NETLINK_LISTEN_ALL_NSID, 1)
    while True:
        try:
            network.settle()
        except LabError as error:
            # A link or a namespace went while it was looked at: that is an event, too.
            say(str(error))
            time.sleep(0.1)
        _wait(events)


def _wait(events: socket.socket) -> None:
    """Until something has happened; all that has happened by then is one look."""
    events.setblocking(True)
    try:
        events.recv(65536)
        events.setblocking(False)
        while True:
            events.recv(65536)
    except BlockingIOError:
        return
    except OSError:
        # More happened than the kernel keeps: look at once.
        return


if __name__ == "__main__":
    main()
