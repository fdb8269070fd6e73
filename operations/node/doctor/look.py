"""Everything that the doctor sees on one node without a load, in one round trip."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from operations.node import links, look
from operations.node.doctor import clock, disk, gpu, heat, holders, kernel_log, memory, ports, software


def main(store: str, image: str, watched: list[int]) -> dict[str, Any]:
    """Each topic by its name; one that could not be looked at is {"failed": why}.

    `image`: the engine's, by its local name, or nothing; `watched`: the ports that Tandem wants.
    """
    topics: dict[str, Callable[[], Any]] = {
        "gpu": gpu.main,
        "kernel_log": kernel_log.main,
        "clock": clock.service,
        "disk": partial(disk.main, look.expand(store)),
        "heat": heat.main,
        "memory": memory.main,
        "links": links.links,
        "ports": ports.main,
        "holders": partial(holders.main, watched),
        "software": partial(software.main, image),
    }
    with ThreadPoolExecutor(len(topics)) as pool:
        tasks = {name: pool.submit(topic) for name, topic in topics.items()}
        return {name: _result(task) for name, task in tasks.items()}


def _result(task: Future[Any]) -> Any:
    try:
        return task.result()
    except Exception as error:
        # One thing that is odd on this machine must not hide the other nine.
        return {"failed": f"{type(error).__name__}: {error}"}
