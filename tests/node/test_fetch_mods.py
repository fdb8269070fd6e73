"""`tandem recipes --fetch`: a repository at one commit, whole or not at all."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from operations.plan.config.refusal import Refusal
from operations.plan.recipes.repositories import fetched, place
from operations.verbs import fetch as verb

ROOT = Path(__file__).parents[2]


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    return subprocess.run(
        ["git", "-C", folder, *who, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/tandem/repositories"


@pytest.fixture
def repository(tmp_path: Path) -> tuple[str, str, str]:
    """A repository's URL, and two commits: the first has the mod as it was, the second as it is."""
    folder = tmp_path / "repository"
    (folder / "mods/fix").mkdir(parents=True)
    git(folder.parent, "init", "--quiet", str(folder))
    commits = []
    for text in ("echo 1\n", "echo 2\n"):
        (folder / "mods/fix/run.sh").write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "--quiet", "-m", "x")
        commits.append(git(folder, "rev-parse", "HEAD"))
    return f"file://{folder}", commits[0], commits[1]


def refused(wanted: str) -> str:
    with pytest.raises(Refusal) as refusal:
        verb.fetch(wanted)
    assert len(refusal.value.findings) == 1
    finding = refusal.value.findings[0]
    return f"{finding.problem}; {finding.remedy}"


@pytest.mark.parametrize(("which", "text"), [(1, "echo 1\n"), (2, "echo 2\n")])
def test_a_commit_is_fetched_once_and_then_taken(repository: tuple[str, str, str], which: int, text: str) -> None:
    url, commit = repository[0], repository[which]
    there = verb.fetch(f"{url}@{commit}")
    assert (there / "mods/fix/run.sh").read_text() == text and fetched() == [there]
    Path(url.removeprefix("file://")).rename(there.parent / ".away")
    assert verb.fetch(f"{url}@{commit}") == there


def test_a_commit_that_is_not_there_leaves_nothing(repository: tuple[str, str, str], cache: Path) -> None:
    said = refused(f"{repository[0]}@{'0' * 40}")
    assert said.startswith(f"{repository[0]} has no commit {0:040}; `git ls-remote")
    assert fetched() == [] and [each for each in cache.iterdir() if each.is_dir()] == []


@pytest.mark.parametrize("url", ["file:///nowhere/at-all", "https://127.0.0.1:1/x/y"])
def test_a_network_that_is_away_is_one_line(url: str) -> None:
    why = "is no git repository, or is there no more" if url.startswith("file:") else "can't be fetched: fatal: "
    assert refused(f"{url}@{'a' * 40}").startswith(f"{url} {why}")
    assert fetched() == []


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("", "that is no public repository at a commit"),
        ("https://example.org/a/b", "that is no public repository at a commit"),
        (f"https://me:geheim@example.org/a/b@{'a' * 40}", "that is no public repository at a commit"),
        ("https://me:geheim@example.org/a/b", "that is no public repository at a commit"),
        (f"ext::sh -c x@{'a' * 40}", "that is no public repository at a commit"),
        (f"--upload-pack=x@{'a' * 40}", "that is no public repository at a commit"),
        (
            "https://example.org/a/b@main",
            "`main` is no commit of 40 hex digits; `git ls-remote https://example.org/a/b HEAD`",
        ),
    ],
)
def test_what_is_no_repository_at_a_commit_is_refused_before_anything(wanted: str, said: str, cache: Path) -> None:
    text = refused(wanted)
    assert said in text and "geheim" not in text and not cache.exists()


def test_one_that_was_killed_half_way_is_no_repository_and_the_next_fetch_makes_it_whole(
    repository: tuple[str, str, str], cache: Path, tmp_path: Path
) -> None:
    url, _, commit = repository
    there = place(url, commit)
    # A git that fetches, and then takes its time, so that there is a moment to be killed in.
    slow = tmp_path / "bin/git"
    slow.parent.mkdir()
    slow.write_text(
        '#!/bin/bash\ncase " $* " in *" checkout "*) touch "$STARTED"; sleep 60 ;; esac\nexec /usr/bin/git "$@"\n'
    )
    slow.chmod(0o755)
    env = {**os.environ, "PATH": f"{slow.parent}:{os.environ['PATH']}", "STARTED": str(tmp_path / "started")}
    argv = [sys.executable, "-m", "operations.verbs.fetch", f"{url}@{commit}"]
    process = subprocess.Popen(argv, cwd=ROOT, env=env, start_new_session=True)
    while not (tmp_path / "started").exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert (cache / f".{there.name}.part").is_dir() and fetched() == []
    assert verb.fetch(f"{url}@{commit}") == there and fetched() == [there]
    assert not (cache / f".{there.name}.part").exists()


def test_a_second_fetch_waits_for_the_first(repository: tuple[str, str, str], cache: Path) -> None:
    url, _, commit = repository
    there = place(url, commit)
    cache.mkdir(parents=True)
    with (cache / f".{there.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        argv = [sys.executable, "-m", "operations.verbs.fetch", f"{url}@{commit}"]
        second = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(timeout=5)
        # What the first leaves under the final name is taken as it is.
        there.mkdir()
    assert second.communicate()[0] == f"{url}@{commit} is in {there}\n"
    assert list(there.iterdir()) == []


def test_the_verb_says_it_in_a_line_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert verb.main(f"file:///nowhere@{'a' * 40}") == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_cache_that_can_t_be_written_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert verb.main(f"file:///nowhere@{'a' * 40}") == 1
    assert "XDG_CACHE_HOME= names another" in capsys.readouterr().err
