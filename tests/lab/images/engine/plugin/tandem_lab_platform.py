"""Lets vLLM's CPU platform run under Ray across hosts, so that a lab runs the command line of a cluster.

Stock vLLM refuses Ray on a CPU ("current platform cpu does not support ray") and takes ranks with the same
group name for neighbours in /dev/shm. Here a node advertises its CPU under the name GPU, and ranks talk
gloo over TCP.
"""

from __future__ import annotations

from typing import Any

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator
from vllm.platforms.cpu import CpuPlatform


class LabPlatform(CpuPlatform):
    """CpuPlatform that Ray may schedule."""

    ray_device_key = "GPU"

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Qualified name of the communicator class."""
        return "tandem_lab_platform.LabCommunicator"


class LabCommunicator(CpuCommunicator):
    """CpuCommunicator whose ranks never share /dev/shm: they are on different hosts."""

    def _all_group_ranks_share_shm_group_name(self, *args: Any, **kwargs: Any) -> bool:
        return False
