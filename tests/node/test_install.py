"""Packages that would begin to serve: what is done around apt, with systemctl and apt-get that only write it down."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.node.shipped import FILES

PACKAGES = ["prometheus", "prometheus-alertmanager"]
BOUNDS = "-o DPkg::Lock::Timeout=60 -o Acquire::Retries=1 -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15"
_APT = 'echo "apt-get $*" >> {log}\ncase "$*" in install*) {install};; *) {update};; esac\n'


def ran(folder: Path, *, units: str = "", install: str = "true", update: str = "true") -> tuple[int, list[str]]:
    """Exit status, and what was asked for; `units`: those that are there."""
    log = folder / "log"
    log.write_text("")
    systemctl = f'case "$1" in cat) case " {units} " in *" $2 "*) exit 0;; *) exit 1;; esac;; esac\n'
    for name, body in (
        ("systemctl", systemctl + f'echo "systemctl $*" >> {log}\n'),
        ("apt-get", _APT.format(log=log, install=install, update=update)),
    ):
        (folder / name).write_text(f"#!/bin/sh\n{body}")
        (folder / name).chmod(0o755)
    argv = ["sh", "-c", (FILES / "monitoring/install.sh").read_text(), "sh", str(folder / "var/refused"), *PACKAGES]
    done = subprocess.run(argv, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}, check=False)
    return done.returncode, log.read_text().splitlines()


def test_what_would_serve_is_masked_before_it_comes(tmp_path: Path) -> None:
    code, asked = ran(tmp_path)
    assert code == 0
    assert asked == [
        "systemctl mask --quiet prometheus.service",
        "systemctl mask --quiet prometheus-alertmanager.service",
        f"apt-get install -y -qq --no-install-recommends {BOUNDS} prometheus prometheus-alertmanager",
    ]
    assert not (tmp_path / "var/refused").exists()


def test_an_owner_s_own_prometheus_is_left_as_it_is(tmp_path: Path) -> None:
    code, asked = ran(tmp_path, units="prometheus.service")
    assert code == 0 and [line for line in asked if "mask" in line] == [
        "systemctl mask --quiet prometheus-alertmanager.service"
    ]


@pytest.mark.parametrize("update", ["true", "false"])
def test_what_did_not_come_leaves_nothing_masked(tmp_path: Path, update: str) -> None:
    code, asked = ran(tmp_path, units="prometheus.service", install="false", update=update)
    assert code == 1 and f"apt-get update -qq {BOUNDS}" in asked
    assert asked[-1] == "systemctl unmask --quiet prometheus-alertmanager.service"


def test_what_came_without_the_other_stays_masked(tmp_path: Path) -> None:
    half = f"printf '#!/bin/sh\\n' > {tmp_path}/prometheus; chmod +x {tmp_path}/prometheus; exit 1"
    code, asked = ran(tmp_path, install=half)
    assert code == 1
    assert [line for line in asked if "unmask" in line] == ["systemctl unmask --quiet prometheus-alertmanager.service"]


def test_what_did_not_come_is_remembered_until_it_does(tmp_path: Path) -> None:
    ran(tmp_path, install="false")
    assert (tmp_path / "var/refused").read_text().split() == PACKAGES
    assert ran(tmp_path, install="false", update="true")[0] == 1
    assert ran(tmp_path)[0] == 0 and not (tmp_path / "var/refused").exists()


def test_where_masking_fails_nothing_is_installed(tmp_path: Path) -> None:
    ran(tmp_path)
    (tmp_path / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "log").write_text("")
    argv = ["sh", "-c", (FILES / "monitoring/install.sh").read_text(), "sh", str(tmp_path / "refused"), *PACKAGES]
    done = subprocess.run(argv, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=False)
    assert done.returncode == 1 and (tmp_path / "log").read_text() == ""
