"""Ranks of the lab talk gloo over TCP: they are on different hosts, whatever vLLM makes of their group's name."""

from __future__ import annotations

from typing import Any

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator


class LabCommunicator(CpuCommunicator):
    """CpuCommunicator whose ranks never share /dev/shm."""

    def _all_group_ranks_share_shm_group_name(self, *args: Any, **kwargs: Any) -> bool:
        return False
