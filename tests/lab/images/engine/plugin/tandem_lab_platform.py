"""Lets vLLM's CPU platform run under Ray across hosts, so that a lab runs the command line of a cluster.

Stock vLLM refuses Ray on a CPU ("current platform cpu does not support ray"). Here a node advertises its CPU under the
name GPU. The communicator is named and not imported: it needs the platform that is just being chosen.
"""

from __future__ import annotations

import os
from typing import Any

from vllm.platforms.cpu import CpuPlatform


class LabPlatform(CpuPlatform):
    """CpuPlatform that Ray may schedule."""

    ray_device_key = "GPU"

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Qualified name of the communicator class."""
        return "tandem_lab_communicator.LabCommunicator"

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Ranks may be stages, and load slowly with LAB_LOAD_S in the environment.

        A process begins as a copy of the one that starts it. CpuPlatform has each import vLLM anew, one after the
        other: three times ten seconds of a core. A copy lacks OpenMP's threads, and the lab's have none
        (OMP_NUM_THREADS=1).
        """
        super().check_and_update_config(vllm_config)
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"
        worker = "SlowWorker" if os.environ.get("LAB_LOAD_S") else "StageWorker"
        vllm_config.parallel_config.worker_cls = f"tandem_lab_worker.{worker}"
