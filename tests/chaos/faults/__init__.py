"""The faults: what is done, in which scenes, and what is expected of it."""

from __future__ import annotations

from tests.chaos.fault import Fault
from tests.chaos.faults.absent import ABSENT
from tests.chaos.faults.address import ADDRESS
from tests.chaos.faults.busy import BUSY
from tests.chaos.faults.deploys import DEPLOYS
from tests.chaos.faults.drift import DRIFT
from tests.chaos.faults.network import NETWORK
from tests.chaos.faults.nodes import NODES
from tests.chaos.faults.processes import PROCESSES
from tests.chaos.faults.shortage import SHORTAGE

FAULTS = [*NODES, *ABSENT, *PROCESSES, *BUSY, *NETWORK, *DEPLOYS, *DRIFT, *SHORTAGE, *ADDRESS]


def fast(scene: str) -> list[Fault]:
    """The faults that the tests do to a scene."""
    return [fault for fault in FAULTS if scene in fault.fast]


#: What can't be done to a lab, and why.
NOT_HERE = {
    "a disk that fills up in the middle of a copy": "not under load: tests/node/test_faults.py does it to a copy alone",
    "a jump of the clock": "the nodes have this machine's clock; [virtual machines](machines.md) have their own",
    "a hang of the GPU, an error of RDMA": "there is neither",
    "a freeze of unified memory": "there is none; the guard is tried with this machine's own memory",
}
