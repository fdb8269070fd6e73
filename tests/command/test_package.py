"""The package, as pip installs it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import tomllib

from operations.command.groups import DEVELOP, LAB, app
from tests.deploy.fake import NAMES, deploy, look, planned
from tests.support.command_line import ROOT, tandem


def test_the_lab_is_not_in_the_package_and_the_deploy_is(tmp_path: Path) -> None:
    """Laid out as the package is: from there, in an owner's folder, with nothing of the clone."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    where = tmp_path / "site"
    for source, target in project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].items():
        (where / target).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, where / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, where / target)
    root = where / "tandem_spark"
    owner = tmp_path / "owner"
    owner.mkdir()
    plan = planned(topology="replicas")
    deploy(owner, [look(plan, name) for name in NAMES], "--dry", "--data", "topology=replicas")
    done = tandem(owner, "apply", "topology=replicas", "--inventory", str(owner / "nodes.py"), root=root)
    assert done.returncode == 0 and "nothing has changed" in done.stderr, done.stderr
    assert tandem(owner, "advise", "8 users chat", "--inventory", str(owner / "nodes.py"), root=root).returncode == 0
    for each in (item.name for item in app.registered_commands if item.rich_help_panel in (LAB, DEVELOP)):
        done = tandem(owner, str(each), root=root)
        assert done.returncode == 2 and "are in the clone, not in the package" in done.stderr


def test_what_the_package_needs_is_what_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = {line.split("==")[0] for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line}
    assert {re.split(r"[=<>]", each)[0] for each in project["dependencies"]} <= locked
    assert "aiohttp" in project["dependencies"], "`tandem bench` is in every installation"
    bench = (ROOT / "requirements-bench.in").read_text().split("\n")
    assert project["optional-dependencies"]["bench"] == [line for line in bench if line and line[0] not in "#-"]
    assert project["name"] == "tandem-spark" and project["scripts"] == {"tandem": "tandem_spark:main"}
