"""Mods that are run at each start: in order, before the engine, and heard of when they fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "files/engine/start_mods.py"
#: The program with another folder of mods, and without the links that only a container may have.
CALL = """
import sys; sys.path.insert(0, {folder!r})
import start_mods; from pathlib import Path
start_mods.SPARKRUN = {links!r}
sys.exit(start_mods.main(sys.argv[1:], Path({mods!r})))
"""


def mod(tmp_path: Path, name: str, text: str) -> None:
    folder = tmp_path / "mods" / name
    folder.mkdir(parents=True)
    (folder / "run.sh").write_text(text)
    (folder / "run.sh").chmod(0o755)


class Start:
    """A start of a container: the mods, then what stands for the engine."""

    def __init__(self, tmp_path: Path, *names: str, links: dict[str, str] | None = None) -> None:
        call = CALL.format(folder=str(PROGRAM.parent), mods=str(tmp_path / "mods"), links=links or {})
        (tmp_path / "call.py").write_text(call)
        script = f"{sys.executable} {tmp_path}/call.py {' '.join(names)} || exit $?\necho engine\nexec sleep 30"
        self.log = tmp_path / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", script], stdout=log, stderr=log, cwd=tmp_path, start_new_session=True
            )

    def says(self, text: str, patience_s: float = 10) -> str:
        """The log, as soon as a text is in it."""
        end = time.monotonic() + patience_s
        while text not in (said := self.log.read_text()) and time.monotonic() < end:
            time.sleep(0.05)
        assert text in said, said
        return said

    def end(self) -> None:
        """As the end of a container: everything at once."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def test_they_run_in_order_with_the_start_s_folder_and_then_the_engine(tmp_path: Path) -> None:
    mod(tmp_path, "one", '#!/bin/bash\necho "one in ${PWD##*/} of $WORKSPACE_DIR"\n')
    mod(tmp_path, "two", "[[ a == a ]] && echo two without a first line\n")
    start = Start(tmp_path, "one", "two")
    said = start.says("engine")
    start.end()
    words = [line for line in said.splitlines() if line]
    assert words == [
        *(
            "tandem: the mod one",
            f"one in one of {tmp_path}",
            "tandem: the mod two",
            "two without a first line",
            "engine",
        )
    ]


def test_one_that_fails_ends_the_start_and_is_named_last(tmp_path: Path) -> None:
    mod(tmp_path, "one", "#!/bin/sh\necho no such file >&2\nexit 3\n")
    mod(tmp_path, "two", "#!/bin/sh\necho never\n")
    start = Start(tmp_path, "one", "two")
    assert start.process.wait(timeout=10) == 3
    said = start.log.read_text()
    assert said.endswith("tandem: the mod one has failed with 3: the engine is not started\n") and "never" not in said


def test_one_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    start = Start(tmp_path, "none")
    assert start.process.wait(timeout=10) and "tandem: the mod none has failed" in start.log.read_text()


@pytest.mark.parametrize(
    ("ends", "how"), [("exit 7", "code 7"), ("kill -9 $$", "signal SIGKILL"), ("exit 0", "code 0")]
)
def test_what_it_leaves_running_is_heard_of_when_it_ends(tmp_path: Path, ends: str, how: str) -> None:
    (tmp_path / "loop.sh").write_text(f"while [ ! -e {tmp_path}/end ]; do sleep 0.1; done\n{ends}\n")
    mod(tmp_path, "beside", f"#!/bin/bash\nnohup setsid sh {tmp_path}/loop.sh >/dev/null 2>&1 &\n")
    start = Start(tmp_path, "beside")
    assert "failed" not in start.says("engine")
    (tmp_path / "end").touch()
    # By its last command line where that was seen in time: nohup, setsid and sh take each other's place.
    said = start.says(f"` ended with {how}")
    assert "what the mod beside has left running has failed: `" in said
    assert start.process.poll() is None, "the engine goes on"
    start.end()


def test_the_engine_waits_for_no_program_that_stays(tmp_path: Path) -> None:
    mod(tmp_path, "stays", "#!/bin/sh\nsleep 20 &\n")
    began = time.monotonic()
    start = Start(tmp_path, "stays")
    start.says("engine")
    assert time.monotonic() - began < 8
    start.end()


def test_what_sparkrun_mounts_is_there(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    mod(tmp_path, "one", f"#!/bin/bash\nset -e\nstat -c %u {tmp_path}/sparkrun/runtime >/dev/null\n")
    start = Start(tmp_path, "one", links={f"{tmp_path}/sparkrun/runtime": f"{tmp_path}/cache"})
    start.says("engine")
    start.end()
    assert (tmp_path / "sparkrun/runtime").resolve() == tmp_path / "cache"
