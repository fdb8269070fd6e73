"""Workers of the lab: one whose stages can take what the stage before hands on, and one whose load takes as long as a
real model's. A lab's own load takes half a minute, and forgives what minutes do not.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

from vllm.distributed.device_communicators import shm_broadcast
from vllm.distributed.parallel_state import get_pp_group
from vllm.logger import init_logger
from vllm.v1.worker.cpu_worker import CPUWorker

logger = init_logger("vllm.tandem_lab")
#: Seconds between two lines of the log.
EVERY_S = 15.0
#: Seconds for which a rank looks for its next step with a whole core before it waits to be told. vLLM takes one second:
#: behind each of the canary's tokens, and all the time under load, on cores that all nodes of a lab share.
LOOKS_S = 0.005
shm_broadcast.SpinCondition = partial(shm_broadcast.SpinCondition, busy_loop_s=LOOKS_S)


class StageWorker(CPUWorker):
    """CPUWorker that can be a later stage. What takes the stage before's tensors is made when vLLM warms up, which its
    CPU build does not do with `enforce-eager`: the first request would end the engine.
    """

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Load, and make them."""
        super().load_model(*args, **kwargs)
        runner = self.model_runner
        if not get_pp_group().is_first_rank:
            runner.intermediate_tensors = runner.model.make_empty_intermediate_tensors(
                batch_size=runner.max_num_tokens, dtype=runner.model_config.dtype, device=runner.device
            )


class SlowWorker(StageWorker):
    """StageWorker whose load takes LAB_LOAD_S seconds more."""

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Wait, with a line now and then as a loader of shards has, then load."""
        end = time.monotonic() + float(os.environ["LAB_LOAD_S"])
        while (left := end - time.monotonic()) > 0:
            logger.info("loading slowly (LAB_LOAD_S): %.0f s left", left)
            time.sleep(min(left, EVERY_S))
        super().load_model(*args, **kwargs)
