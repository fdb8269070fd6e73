"""What `tandem upgrade` says of the clone that it is from: real git, a bare repository as the origin, no network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from operations.command import origin
from operations.command.version import version
from operations.plan.config.refusal import Refusal
from tests.support.command_line import tandem

NOBODY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def git(place: Path, *words: str, code: int = 0) -> None:
    environment = {**os.environ, **NOBODY, "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(["git", "-C", str(place), *words], env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stderr + done.stdout


def commit(place: Path, knobs: str, program: str = "") -> None:
    for name, text in {
        "pyproject.toml": "",
        "group_data/all.py": knobs,
        "operations/a.py": program,
        **{f"{name}/b": "" for name in ("bench", "files")},
        **dict.fromkeys(("config.py", "deploy.py", "requirements.lock"), ""),
    }.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "x")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone beside its origin, which has a commit more that is fetched."""
    for name in ("work", "clone"):
        (tmp_path / name).mkdir()
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "origin")
    git(tmp_path / "work", "init", "-q", "-b", "main")
    commit(tmp_path / "work", "a = 1\n")
    git(tmp_path / "work", "push", "-q", str(tmp_path / "origin"), "main")
    git(tmp_path, "clone", "-q", str(tmp_path / "origin"), "clone")
    commit(tmp_path / "work", "a = 2\n", "new = True\n")
    git(tmp_path / "work", "push", "-q", str(tmp_path / "origin"), "main")
    return tmp_path / "clone"


def test_a_clone_that_is_as_its_origin_has_no_remark(clone: Path) -> None:
    git(clone, "pull", "-q")
    (clone / "mine").write_text("not git's")
    assert origin.check(clone) == []


def test_what_is_fetched_and_not_here_is_told(clone: Path) -> None:
    git(clone, "fetch", "-q")
    assert origin.check(clone) == [f"{clone} lacks a commit that is fetched already: `git -C {clone} pull`"]


def test_an_origin_that_is_away_is_not_asked(clone: Path) -> None:
    shutil.rmtree(clone.parent / "origin")
    assert origin.check(clone) == []


def test_a_head_on_no_branch_and_files_that_are_edited_are_told(clone: Path) -> None:
    git(clone, "checkout", "-q", "--detach")
    for name in ("group_data/all.py", "config.py", "deploy.py", "operations/a.py"):
        (clone / name).write_text("mine = 1\n")
    detached, edited = origin.check(clone)
    assert "on no branch: `git switch main` there, before `git pull`" in detached
    assert edited == (
        f"config.py, deploy.py, group_data/all.py and 1 more in {clone} are edited: "
        "where `git pull` refuses, `git stash`, `git pull`, `git stash pop`"
    )


def test_a_merge_that_is_not_settled_is_refused(clone: Path) -> None:
    commit(clone, "a = 3\n")
    git(clone, "pull", "-q", "--no-rebase", code=1)
    with pytest.raises(Refusal, match=r"group_data/all.py in .* has both sides of a merge"):
        origin.check(clone)


def test_what_is_no_repository_has_no_remark(clone: Path) -> None:
    shutil.rmtree(clone / ".git")
    assert origin.check(clone) == []


@pytest.fixture
def installed(clone: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package's folder, made of the clone as it is."""
    package = clone.parent / "site" / "tandem_spark"
    shutil.copytree(clone, package, ignore=shutil.ignore_patterns(".git", "pyproject.toml"))

    class Told:
        def read_text(self, name: str) -> str:
            return json.dumps({"url": clone.as_uri(), "dir_info": {}})

    monkeypatch.setattr(metadata, "distribution", lambda name: Told())
    return package


def test_a_clone_that_was_pulled_and_not_installed_is_refused(clone: Path, installed: Path) -> None:
    (installed / "operations/__pycache__").mkdir()
    (installed / "operations/__pycache__/a.pyc").write_text("")
    assert origin.check(installed) == []
    git(clone, "pull", "-q")
    with pytest.raises(Refusal, match=f"uv tool install --force '?{clone}"):
        origin.check(installed)


def test_knobs_edited_in_the_clone_are_nothing_to_the_package(clone: Path, installed: Path) -> None:
    (clone / "group_data/all.py").write_text("mine = 1\n")
    [edited] = origin.check(installed)
    assert "group_data/all.py" in edited


def test_a_package_whose_clone_is_gone_has_no_remark(clone: Path, installed: Path) -> None:
    shutil.rmtree(clone)
    assert origin.check(installed) == []


def test_an_upgrade_of_nodes_that_are_off_ends_with_that(off: Path) -> None:
    done = tandem(off, "upgrade")
    assert done.returncode == 3 and "no node answers" in done.stderr


def head(clone: Path) -> str:
    said = subprocess.run(["git", "-C", str(clone), "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    return said.strip()[:12]


def test_the_version_names_the_commit_of_a_clone(clone: Path) -> None:
    assert origin.commit(clone) == head(clone)
    (clone / "deploy.py").write_text("mine = 1\n")
    assert origin.commit(clone) == f"{head(clone)}+"
    shutil.rmtree(clone / ".git")
    assert origin.commit(clone) == ""


def test_a_package_names_the_commit_of_its_clone_as_long_as_both_are_the_same(clone: Path, installed: Path) -> None:
    assert origin.commit(installed) == head(clone)
    git(clone, "pull", "-q")
    assert origin.commit(installed) == ""


def test_a_package_of_a_url_names_the_commit_that_was_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"url": "https://example.org/tandem", "vcs_info": {"vcs": "git", "commit_id": "0123456789abcdef" * 2}}
    read = SimpleNamespace(read_text=lambda _name: json.dumps(told))
    monkeypatch.setattr(metadata, "distribution", lambda _name: read)
    assert origin.commit(tmp_path) == "0123456789ab" and origin.installed_from() is None


def test_the_version_says_it(tmp_path: Path) -> None:
    known = f" ({origin.commit()})" if origin.commit() else ""
    assert tandem(tmp_path, "--version").stdout == f"tandem {version()}{known}\n"


@pytest.mark.parametrize(
    ("left", "says"),
    [
        ("uv-receipt.toml", "`uv tool install --force {}`"),
        ("pipx_metadata.json", "`pipx install --force {}`"),
        ("", "`uv tool install --force {}` (or `pipx install --force {}`)"),
    ],
)
def test_a_package_is_installed_anew_by_what_has_installed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str, says: str
) -> None:
    """With what a report needs, which the same without it would take away."""
    monkeypatch.setattr(origin.sys, "prefix", str(tmp_path))  # type: ignore[attr-defined]
    if left:
        (tmp_path / left).write_text("")
    assert origin.install("/a/tandem", with_plots=False) == says.replace("{}", "/a/tandem")
    assert origin.install("/a/tandem", with_plots=True) == says.replace("{}", "'/a/tandem[bench]'")
    of = "tandem-spark @ git+https://x.org/y"
    assert origin.install(of, with_plots=True) == says.replace("{}", "'tandem-spark[bench] @ git+https://x.org/y'")


def test_what_a_package_is_from_is_its_clone_or_its_repository(
    clone: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert origin.source() == str(clone)
    told = SimpleNamespace(read_text=lambda name: '{"url": "https://x.org/y", "vcs_info": {"vcs": "git"}}')
    monkeypatch.setattr(metadata, "distribution", lambda name: told)
    assert origin.source() == "tandem-spark @ git+https://x.org/y"
    pinned = '{"url": "https://x.org/y", "vcs_info": {"vcs": "git", "commit_id": "0123abcd"}}'
    monkeypatch.setattr(metadata, "distribution", lambda name: SimpleNamespace(read_text=lambda name: pinned))
    assert origin.source() == "tandem-spark @ git+https://x.org/y@0123abcd"
    monkeypatch.setattr(metadata, "distribution", lambda name: SimpleNamespace(read_text=lambda name: None))
    assert origin.source() == "./tandem"


def test_an_upgrade_keeps_what_a_report_needs(clone: Path, installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(clone, "pull", "-q")
    find = origin.importlib.util.find_spec  # type: ignore[attr-defined]
    for there, says in ((None, f"--force {clone}`"), (object(), f"--force '{clone}[bench]'`")):
        monkeypatch.setattr(
            origin.importlib.util,  # type: ignore[attr-defined]
            "find_spec",
            lambda name, there=there: there if name == "matplotlib" else find(name),
        )
        with pytest.raises(Refusal) as refused:
            origin.check(installed)
        assert says in refused.value.findings[0].remedy
