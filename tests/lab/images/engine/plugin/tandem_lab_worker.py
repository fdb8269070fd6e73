"""A load that takes as long as one of a real model: a lab's own takes half a minute, and forgives what minutes do not."""

from __future__ import annotations

import os
import time
from typing import Any

from vllm.logger import init_logger
from vllm.v1.worker.cpu_worker import CPUWorker

logger = init_logger("vllm.tandem_lab")
#: Seconds between two lines of the log.
EVERY_S = 15.0


class SlowWorker(CPUWorker):
    """CPUWorker whose load takes LAB_LOAD_S seconds more."""

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Wait, with a line now and then as a loader of shards has, then load."""
        end = time.monotonic() + float(os.environ["LAB_LOAD_S"])
        while (left := end - time.monotonic()) > 0:
            logger.info("loading slowly (LAB_LOAD_S): %.0f s left", left)
            time.sleep(min(left, EVERY_S))
        super().load_model(*args, **kwargs)
