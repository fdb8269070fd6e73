"""Memory before an engine loads and while it does: the shipped program, on a kernel's files of a test's."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.node.shipped import FILES, load
from tests.node.test_turn import nobody
from tests.support.ports import free_port
from tests.support.serving import Quiet, serving
from tests.support.waiting import comes

GIB = 1 << 20
#: `memory.py`, with the kernel's files in a folder of a test's, and less patience.
RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import memory
memory.MEMINFO, memory.VM = Path(sys.argv[2]) / "meminfo", Path(sys.argv[2])
memory.LOOK_S, memory.PAUSE_S, memory.ANSWER_S = 0.05, 0.2, 0.5
memory.beside(sys.argv[3], Path(sys.argv[4]) if len(sys.argv) > 4 else None)
"""


class Kernel:
    """What /proc says of a node, and what was written to it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.says(total=121.69, free=110, available=110)
        self.forget()

    def says(self, *, total: float, free: float, available: float, cached: float = 0) -> None:
        """GiB in all, free, available, and cached of files; half a GiB more is shared memory."""
        told = {"MemTotal": total, "MemFree": free, "MemAvailable": available}
        told |= {"Cached": cached + 0.5, "Shmem": 0.5}
        text = "".join(f"{name}:    {round(gib * GIB)} kB\n" for name, gib in told.items())
        # As a whole: the program reads it all the time.
        (self.home / "new").write_text(text)
        (self.home / "new").rename(self.home / "meminfo")

    def forget(self) -> None:
        """Nothing was written yet."""
        for name in ("drop_caches", "compact_memory"):
            (self.home / name).write_text("")

    @property
    def has_room(self) -> bool:
        """Whether caches were dropped and memory compacted."""
        return [(self.home / name).read_text() for name in ("drop_caches", "compact_memory")] == ["3\n", "1\n"]

    def comes_to_room(self, patience_s: float = 10.0) -> bool:
        """The same, within some seconds."""
        return comes(lambda: self.has_room, patience_s)


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def program(kernel: Kernel) -> Any:
    memory = load("engine/memory.py")
    memory.MEMINFO, memory.VM = kernel.home / "meminfo", kernel.home
    return memory


@pytest.mark.parametrize(
    ("gib", "share", "available", "wants"),
    [
        (100, 0, 101.3, 0),
        (102, 0, 101.3, 104_448),
        # vLLM's share of the whole counts, whatever the recipe says beside it: 0.85 of 121.69 GiB.
        (58, 850, 101.3, 105_918),
        (58, 850, 110, 0),
        (100, 820, 99, 102_400),
    ],
)
def test_the_greater_of_gib_and_share_has_to_be_free(
    kernel: Kernel, gib: int, share: int, available: float, wants: int
) -> None:
    kernel.says(total=121.69, free=available, available=available)
    said = program(kernel).short(gib * 1024, share)
    assert (f"this recipe needs {wants} MiB" in said) if wants else said == ""


def test_to_ask_for_memory_changes_nothing(kernel: Kernel) -> None:
    # It is asked once a second while another model loads.
    kernel.says(total=121.69, free=40, available=110)
    assert program(kernel).short(100, 820) == ""
    assert program(kernel).short(1 << 20, 820)
    assert [(kernel.home / name).read_text() for name in ("drop_caches", "compact_memory")] == ["", ""]


def test_what_takes_no_connection_in_time_has_not_loaded(kernel: Kernel) -> None:
    memory = program(kernel)
    memory.ANSWER_S = 0.3
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/metrics"
        # It takes the question, and is slow to answer it.
        assert memory.answers(url)
        with ExitStack() as held:
            for _ in range(4):
                client = held.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex(server.getsockname())
            assert not memory.answers(url)


def test_a_kernel_without_compaction_is_no_reason_not_to_start(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = program(kernel)
    memory.VM = kernel.home / "none"
    memory.make_room()
    said = capsys.readouterr().err
    assert "vm.drop_caches can't be set" in said and "vm.compact_memory can't be set" in said


def beside(kernel: Kernel, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-B", "-c", RUN, str(FILES / "engine"), str(kernel.home), *words])


def test_a_rank_has_room_made_for_it_when_all_have_met_and_not_before(kernel: Kernel) -> None:
    mark = kernel.home / "meeting.json"
    mark.write_text('{"met": false, "missing": [1]}')
    process = beside(kernel, nobody(), str(mark))
    try:
        # It waits for hours, and its node has other things to read meanwhile.
        assert not kernel.comes_to_room(1)
        mark.write_text('{"met": true, "missing": []}')
        assert kernel.comes_to_room()
    finally:
        process.kill()
        process.wait()


def test_caches_are_dropped_in_a_load_that_leaves_little_free_and_no_more_when_it_answers(kernel: Kernel) -> None:
    class Engine(Quiet):
        def do_GET(self) -> None:
            self.reply()

    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    process = beside(kernel, url)
    try:
        assert not kernel.comes_to_room(0.5)
        # Nothing is cached: nothing would be won.
        kernel.says(total=121.69, free=3, available=4, cached=0.9)
        assert not kernel.comes_to_room(0.5)
        kernel.says(total=121.69, free=3, available=60, cached=57)
        assert kernel.comes_to_room()
        # What could not be dropped is in use.
        time.sleep(0.3)
        kernel.forget()
        assert not kernel.comes_to_room(0.5)
        kernel.says(total=121.69, free=3, available=62, cached=59)
        assert kernel.comes_to_room()
        kernel.says(total=121.69, free=20, available=60, cached=62)
        time.sleep(0.3)
        kernel.forget()
        assert not kernel.comes_to_room(0.5)
        with serving(Engine, port):
            # It has loaded: nobody looks any more.
            assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.wait()
