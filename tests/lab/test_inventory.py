"""The lab's inventory where no lab is up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_without_hosts_it_says_how_to_get_some(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "pyinfra", "-y", "tests/lab/inventory.py", "operations/verbs/status.py"]
    environment = {**os.environ, "TANDEM_LAB_DIR": str(tmp_path), "PYINFRA_PROGRESS": "off"}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        done.stderr.endswith("the lab has no hosts: `make lab-up`, or unset INVENTORY\n") and "Trace" not in done.stderr
    )
