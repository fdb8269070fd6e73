"""The lab's inventories where no lab is up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("inventory", "machines", "said"),
    [
        ("tests/lab/inventory.py", "namespaces", "the lab has no hosts: `make lab-up`, or unset INVENTORY"),
        ("tests/lab/on_machines/inventory.py", "vm", "the lab has no hosts: `make lab-up`, or unset INVENTORY"),
        (
            "tests/lab/on_machines/inventory.py",
            "namespaces",
            "these are virtual machines: set MACHINES=vm, or take tests/lab/on_llama/inventory.py",
        ),
    ],
)
def test_without_hosts_it_says_how_to_get_some(inventory: str, machines: str, said: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "pyinfra", "-y", inventory, "operations/verbs/status.py"]
    told = {"TANDEM_LAB_DIR": str(tmp_path), "PYINFRA_PROGRESS": "off", "MACHINES": machines}
    environment = {**os.environ, **told}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith(f"{said}\n") and "Trace" not in done.stderr
