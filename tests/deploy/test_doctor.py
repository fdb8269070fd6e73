"""`tandem doctor`'s verb on pyinfra's @fake connector: what is asked, the table, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.fake import _INVENTORY as INVENTORY
from tests.deploy.fake import NAMES, OFF
from tests.plan.samples import ROOT
from tests.plan.test_doctor import healthy


def doctor(
    tmp_path: Path, *arguments: str, off: int = -1, programs: Mapping[str, Any] | None = None
) -> subprocess.CompletedProcess[str]:
    """Two healthy nodes; `programs` answer otherwise on the second; `off` (0, 1) can't be
    reached.
    """
    seen = healthy()
    answers: Any = {}
    for place, (name, known) in enumerate(zip(NAMES, ("spark-1", "spark-2"), strict=True)):
        if place == off:
            answers[known] = OFF
            continue
        said: Any = {
            "doctor.clock": {"now": 0.0},
            "doctor.look": seen.looks[known],
            "doctor.gpu_load": seen.loads[known],
            "doctor.cables": json.loads(json.dumps(seen.cables[known]).replace("spark-", "@fake/spark-")),
            "network.proof:prove": {"problems": []},
        }
        said |= (programs or {}) if place else {}
        answers[name] = {program: json.dumps(answer) for program, answer in said.items()}
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    (tmp_path / "nodes.py").write_text(INVENTORY.format(answers=str(tmp_path / "answers.json")))
    argv = [sys.executable, "-m", "pyinfra", "-y", str(tmp_path / "nodes.py"), "operations/verbs/doctor.py", *arguments]
    environment = {**os.environ, "PYINFRA_PROGRESS": "off"}
    return subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)


def test_remarks_alone_are_no_failure(tmp_path: Path) -> None:
    look: Any = healthy().looks["spark-2"]
    look["memory"]["swaps"] = [{"name": "/swap.img", "gib": 16.0, "used_gib": 0.0}]
    done = doctor(tmp_path, "--data", "_net=0", programs={"doctor.look": look})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing is changed. The doctor sends no load over the rails (--no-load)" in done.stdout
    row = next(line for line in done.stdout.splitlines() if "swap is on: /swap.img" in line)
    assert row.startswith("remark  @fake/spark-2") and "sudo swapoff -a" in row
    remarks = [line for line in done.stdout.splitlines() if line.startswith("remark ")]
    assert f"0 bad, {len(remarks)} remark(s)" in done.stdout
    # The clocks of the fakes stand still: one remark, or two where the tenths of their seconds differ.
    assert [line for line in remarks if "its clock is" not in line] == [row]
    assert "all: what the rails carry: left out (--no-load)" in done.stdout


def test_something_bad_is_told_first_and_ends_with_1(tmp_path: Path) -> None:
    look: Any = healthy().looks["spark-2"]
    look["software"]["nccl"]["version"] = "2.27.3"
    look["software"]["docker"] = "26.1"
    look["disk"]["room"][0]["free_gib"] = 0.0
    look["heat"] = {"failed": "OSError: no"}
    problem = "enp1s0f0np0 -> spark-1: small packets do, 9000 bytes do not"
    done = doctor(tmp_path, programs={"doctor.look": look, "network.proof:prove": {"problems": [problem]}})
    assert done.returncode == 1 and "3 bad thing(s) were found" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    rows = done.stdout.split("what helps")[1].split("\n\n")[0].splitlines()[1:]
    kinds = [row.split()[0] for row in rows]
    assert kinds == sorted(kinds) and kinds.count("bad") >= 3
    for said in ("different NCCLs", "the disk of / is full: 0.0 of", "small packets do", "Docker versions differ"):
        assert any(said in row for row in rows), said
    assert "@fake/spark-2: heat: OSError: no" in done.stdout.split("not asked:")[1]
    assert "measured and found:" in done.stdout


def test_a_node_is_asked_for_its_own_ports_alone(tmp_path: Path) -> None:
    """The second rank of a cluster has no engine's port; its copy's listener is on the head."""
    ports = [
        {"port": port, "address": "*", "process": "nginx", "pid": "7", "ours": False} for port in (8000, 8001, 26031)
    ]
    look: Any = healthy().looks["spark-2"] | {"holders": {"ports": ports, "gpu": []}}
    done = doctor(tmp_path, "--data", "_net=0", programs={"doctor.look": look})
    assert "port 8000 is held by nginx (pid 7) [port-held]" in done.stdout and "port 8001" not in done.stdout
    done = doctor(tmp_path, "--data", "_net=0", "--data", "topology=replicas", programs={"doctor.look": look})
    assert all(f"port {port} is held by nginx" in done.stdout for port in (8000, 8001))
    assert "port 26031" not in done.stdout


@pytest.mark.parametrize("off", [0, 1])
def test_a_node_that_is_off_is_told_and_the_other_is_looked_at(tmp_path: Path, off: int) -> None:
    done = doctor(tmp_path, off=off)
    assert done.returncode == 1 and "1 bad thing(s) were found" in done.stderr, done.stdout + done.stderr
    row = next(line for line in done.stdout.splitlines() if "does not answer (connection refused)" in line)
    assert row.startswith(f"bad  spark-{off + 1} ") or f"  spark-{off + 1}  " in row
    assert f"@fake/spark-{2 - off}: nvme0n1 reads 5.1 GB/s" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
