"""By which networks the ranks here speak to the others, in NCCL's own words."""

from __future__ import annotations

import re
from pathlib import Path

from operations.node.commands import output, read
from operations.node.unit import services
from operations.paths import folder_of

#: What NCCL says of each communicator (operations/plan/cluster/nccl.py has it told to), before the network's name.
SAYS = "NCCL INFO Using network "
#: What meet.py says where the ranks do without some devices, and how that is called here.
PART_SAYS, PART = "RDMA devices: all use ", "part"
#: What NCCL says of the devices that it has found, before their names.
FOUND_SAYS = "NCCL INFO NET/IB : Using "
#: What an engine's environment has where it was told of RDMA devices.
TOLD = "\nNCCL_IB_HCA="


def main() -> dict[str, list[str]]:
    """Engine's unit -> names of the networks that its start has named (`IB`, `Socket`), of those that run here and were
    told of RDMA devices; `part` beside them where it does without some of these. None where the journal does not go
    back so far. With Ray the head's log has every rank's.
    """
    found: dict[str, list[str]] = {}
    states = services.unit_states(services.engines())
    for unit, state in states.items():
        environment = f"\n{read(Path(folder_of(unit)) / 'engine.env')}\n"
        if state.get("ActiveState") == "active" and TOLD in environment:
            this_start = f"_SYSTEMD_INVOCATION_ID={state.get('InvocationID', '')}"
            grep = f"--grep={SAYS}|{PART_SAYS}|{FOUND_SAYS}"
            said = output("journalctl", this_start, grep, "--output=cat", "--no-pager", "--quiet")
            told = environment.partition(TOLD)[2].partition("\n")[0].removeprefix("=").split(",")
            is_part = PART_SAYS in said or _lacks(said, set(told))
            found[unit] = sorted({*re.findall(rf"{SAYS}(\S+)", said), *([PART] if is_part else [])})
    return found


def _lacks(said: str, told: set[str]) -> bool:
    """Whether NCCL of a rank has found devices, and not all that it was told of."""
    for line in said.splitlines():
        names = set(re.findall(r"\[\d+\]([\w.-]+):\d+/", line.partition(FOUND_SAYS)[2]))
        # With Ray the head's log has other nodes' ranks too, behind their addresses: with devices of other names.
        if names and (len(names) < len(told) if " ip=" in line else not told <= names):
            return True
    return False
