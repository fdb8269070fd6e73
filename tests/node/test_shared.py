"""What the LiteLLM of a node know of each other, between real processes that are killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from operations.paths import ADMIN, LITELLM, PROXY_USER, SHARED, SOCKETS, folder_of
from tests.node.confined import IS_ROOT, behind, owned, place
from tests.node.shipped import FILES, load
from tests.plan.samples import plan

#: Counts 3 of `engine`, marks `read` with 7, and stays.
OTHER = """
import sys, time
sys.path.insert(0, sys.argv[1])
import shared
shared.counts.set("another", 1)
shared.counts.set("engine", 3)
shared.marks.put(7, b"engine", b"read")
print("there", flush=True)
time.sleep(600)
"""


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of this process."""
    monkeypatch.setenv("TANDEM_SHARED", str(tmp_path))
    return load("litellm/shared.py")


@contextmanager
def another(folder: Path) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-B", "-c", OTHER, str(FILES / "litellm")]
    process = subprocess.Popen(argv, env={"TANDEM_SHARED": str(folder)}, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout and process.stdout.readline() == "there\n"
        yield process
    finally:
        process.kill()
        process.wait()


def seen(shared: ModuleType, name: str) -> int:
    """After the next look."""
    time.sleep(shared.LOOK_S + 0.1)
    return int(shared.counts.others(name))


def test_what_another_has_counts_as_long_as_it_lives(shared: Any, tmp_path: Path) -> None:
    shared.counts.set("engine", 100)
    with another(tmp_path) as first, another(tmp_path) as second:
        assert seen(shared, "engine") == 6 and shared.counts.others("another") == 2
        assert shared.counts.others("nobody has this") == 0
        first.kill()
        first.wait()
        assert seen(shared, "engine") == 3
        second.kill()
        second.wait()
        assert seen(shared, "engine") == 0
    assert len(list(tmp_path.glob("*.counts"))) == 1, "those of the dead are removed"


def test_a_number_is_seen_at_once(shared: Any, tmp_path: Path) -> None:
    mine, others = shared.Counts(tmp_path), shared.Counts(tmp_path)
    assert mine.others("engine") == 0
    others.set("engine", 1)
    assert seen_by(mine, shared) == 1
    others.set("engine", 5)
    others.set("another", 2)
    assert (mine.others("engine"), mine.others("another")) == (5, 2)
    others.set("engine", 0)
    assert mine.others("engine") == 0


def seen_by(counts: Any, shared: ModuleType) -> int:
    time.sleep(shared.LOOK_S + 0.1)
    return int(counts.others("engine"))


def test_more_names_than_there_is_room_for_harm_nobody(
    shared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "SLOTS", 3)
    mine, others = shared.Counts(tmp_path), shared.Counts(tmp_path)
    for number in range(5):
        others.set(f"name {number}", 1)
    time.sleep(shared.LOOK_S + 0.1)
    assert [mine.others(f"name {number}") for number in range(5)] == [1, 1, 1, 0, 0]


def test_one_of_another_version_has_fewer_names_and_harms_nobody(
    shared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = shared.Counts(tmp_path)
    with monkeypatch.context() as its:
        its.setattr(shared, "SLOTS", 2)
        older = shared.Counts(tmp_path)
    older.set("engine", 4)
    older.set("another", 5)
    mine.set("third", 6)
    time.sleep(shared.LOOK_S + 0.1)
    assert [mine.others(name) for name in ("engine", "another", "third")] == [4, 5, 0]
    assert older.others("third") == 6


def test_one_that_goes_while_it_is_looked_at_leaves_no_traceback(
    shared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with pytest.raises(FileNotFoundError):
        shared._Other(tmp_path / "gone.counts")
    assert said == []


def test_marks_are_everybody_s_and_give_way(shared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with another(tmp_path):
        pass
    assert shared.marks.get(b"engine", b"read") == 7
    assert shared.marks.get(b"engine", b"unread") is None
    shared.marks.put(-1, b"engine", b"read")
    assert shared.Marks(tmp_path).get(b"engine", b"read") == -1
    monkeypatch.setattr(shared, "MARKS", 8)
    # What is known of engines has places of its own, which no conversation takes.
    assert shared.Marks(tmp_path, "incidents").get(b"engine", b"read") is None
    few = shared.Marks(None)
    for number in range(100):
        few.put(number, str(number).encode())
    kept = [number for number in range(100) if few.get(str(number).encode()) == number]
    assert 1 <= len(kept) <= 8 and 99 in kept


def test_one_that_is_alone_needs_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TANDEM_SHARED", raising=False)
    alone = load("litellm/shared.py")
    alone.counts.set("engine", 5)
    assert alone.counts.others("engine") == 0
    alone.marks.put(2, b"x")
    assert alone.marks.get(b"x") == 2


#: Says what the others have, seconds later.
READER = """
import sys, time
sys.path.insert(0, sys.argv[1])
import shared
time.sleep(1.1)
print(shared.counts.others("engine"), flush=True)
"""


@pytest.mark.skipif(not IS_ROOT, reason="only root has files that another may not read")
def test_one_of_an_older_version_that_runs_as_root_counts_not_and_harms_nobody(tmp_path: Path) -> None:
    """A way back by an older Tandem starts one beside one of this."""
    with place(tmp_path) as folder:
        theirs, program = folder / "shared", folder / "program"
        owned(theirs)
        program.mkdir()
        shutil.copy(FILES / "litellm/shared.py", program)
        confined = behind(folder, theirs, python=Path(sys.executable))
        argv = [*confined, os.path.realpath(sys.executable), "-B", "-c", READER, str(program)]
        with another(theirs):
            # It made these first.
            for table in ("marks", "incidents"):
                os.chown(theirs / table, PROXY_USER, PROXY_USER)
            said = subprocess.run(
                argv, env={"TANDEM_SHARED": str(theirs), "PATH": os.environ["PATH"]}, capture_output=True, check=False
            )
        assert said.stdout == b"0\n", said.stderr.decode()


@pytest.mark.skipif(not IS_ROOT, reason="only root gives files away")
@pytest.mark.parametrize("before", ["a boot", "a LiteLLM that ran as root"])
def test_what_they_share_is_theirs_before_a_start_behind(tmp_path: Path, before: str) -> None:
    """By the script that its unit runs, with everything in a folder of the test's."""
    mine = plan(topology="solo").head.services[LITELLM[0]]
    theirs, scripts = tmp_path / "run/litellm", tmp_path / "scripts"
    scripts.mkdir()
    for file in mine.files:
        text = file.content.replace(SHARED, str(theirs)).replace(folder_of(mine.unit), str(scripts))
        text = text.replace(SOCKETS, str(tmp_path / "run/sockets"))
        (scripts / Path(file.path).name).write_text(text.replace(ADMIN, str(tmp_path / "none")))
    if before != "a boot":
        theirs.mkdir(parents=True)
        (theirs / "marks").touch(0o600)
        (tmp_path / "root's").touch(0o600)
        (theirs / "link").symlink_to(tmp_path / "root's")
    subprocess.run(["sh", str(scripts / "ready.sh"), "spec"], check=True, timeout=30)
    found = theirs.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (PROXY_USER, PROXY_USER, 0o700)
    assert {path.lstat().st_uid for path in theirs.iterdir()} <= {PROXY_USER}
    assert theirs.parent.stat().st_uid == 0
    assert before == "a boot" or (tmp_path / "root's").stat().st_uid == 0, "no link is followed"
