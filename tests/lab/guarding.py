"""The memory guard's own kill on a node, with nothing of Python's left that could kill: it has cgroup.kill alone."""

from __future__ import annotations

import shlex

from tests.lab.cluster import on
from tests.lab.settings import LabNode

_KILL = """
import pathlib, sys
guard = type(sys)("guard")
exec(compile(pathlib.Path(sys.argv[1]).read_text(), "guard.py", "exec"), guard.__dict__)
guard.os = guard.subprocess = None
print(guard.kill(pathlib.Path(sys.argv[2]), guard.CGROUPS))
"""


def kill(node: LabNode, container_id: str, program: str = "/etc/tandem/guard/guard.py") -> bool:
    """Whether it has killed the container that a file names."""
    return on(node, f"python3 -c {shlex.quote(_KILL)} {program} {container_id}") == "True\n"
