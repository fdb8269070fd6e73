"""Everything that the doctor sees on one node without a load, in one round trip."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, cast

from operations.node.doctor import clock, disk, holders, kernel_log, memory, networks, ports, prefixes, software
from operations.node.door import certificate
from operations.node.login import expand
from operations.node.machine import gpu, heat
from operations.node.network import links
from operations.wire.doctor import DoctorLook

#: Seconds for all topics together; the longest, a container, has 60.
PATIENCE_S = 100.0


def main(store: str, image: str, watched: list[int], counters: Mapping[str, Sequence[str]] | None = None) -> DoctorLook:
    """Each topic by its name; one that could not be looked at is {"failed": why}.

    `image`: the engine's, by its local name, or nothing; `watched`: the ports that Tandem wants; `counters`:
    what engines call those of their prefix caches.
    """
    topics: dict[str, Callable[[], Any]] = {
        "gpu": gpu.main,
        "kernel_log": kernel_log.main,
        "clock": clock.service,
        "disk": partial(disk.main, expand(store)),
        "heat": heat.main,
        "memory": memory.main,
        "links": links.links,
        "networks": networks.main,
        "ports": ports.main,
        "holders": partial(holders.main, watched),
        "software": partial(software.main, image),
        "certificate": certificate.left,
        "prefixes": partial(prefixes.main, counters or {"asked": (), "found": ()}),
    }
    end = time.monotonic() + PATIENCE_S
    tasks = {name: _begun(topic) for name, topic in topics.items()}
    return cast("DoctorLook", {name: _result(task, end) for name, task in tasks.items()})


def _begun(topic: Callable[[], Any]) -> Future[Any]:
    """In a thread that the program's end does not wait for: a command whose driver hangs can't even be killed."""
    task: Future[Any] = Future()

    def run() -> None:
        try:
            task.set_result(topic())
        except Exception as error:
            task.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return task


def _result(task: Future[Any], end: float) -> Any:
    wait([task], timeout=max(0.0, end - time.monotonic()))
    if not task.done():
        return {"failed": f"hangs; nothing was told in {PATIENCE_S:g} s"}
    try:
        return task.result()
    except Exception as error:
        # One thing that is odd on this machine must not hide the other nine.
        return {"failed": f"{type(error).__name__}: {error}"}
