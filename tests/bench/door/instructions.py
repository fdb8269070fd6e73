"""What the door costs in instructions of LiteLLM's process, as valgrind's callgrind counts them.

Seconds of CPU differ by a tenth with what else a machine does; these differ by a hundredth.

    make bench-door-cost                  this tree's
    make bench-door-cost BEFORE=FOLDER    and those of another one (`git worktree add FOLDER COMMIT`), side by side

What is counted runs fifty times as slow, so it takes minutes. HAProxy is not counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

#: The tree whose door it is: from where this runs, and not where this file lies.
TREE = Path.cwd()
sys.path.insert(0, str(TREE))

from tests.bench.door.client import together  # noqa: E402
from tests.bench.routing import doors  # noqa: E402

_OWN = Path(__file__).parents[3]
#: Name -> streams at once, chunks of each, thousandths of a second between two, and how often.
PARTS = {
    "a request": (1, 1, 0, 32),
    "a request, of 8 at once": (8, 1, 0, 8),
    "a request, of 64 at once, 4 chunks": (64, 4, 0, 2),
}
#: Of the one stream whose chunks are counted, each a part that is read by itself.
CHUNKS, APART_MS = 200, 150
#: Seconds in which nobody asks: what LiteLLM does then, it does beside requests as well.
IDLE_S = 5


def measure() -> dict[str, float]:
    """Thousands of instructions, of the door of TREE."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        # By itself: an older tree has no helper for it, or elsewhere.
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        engine = subprocess.Popen([sys.executable, "-m", "tests.bench.door.engine", str(port)], cwd=TREE)
        stack.callback(engine.wait)
        stack.callback(engine.terminate)
        told = folder / "callgrind"
        argv = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={told}"]
        shared = folder / "shared"
        shared.mkdir()
        door = doors.litellm(
            "balanced",
            [f"http://127.0.0.1:{port}"],
            "double",
            folder / "door",
            before=lambda *_: [*argv, f"--log-file={folder}/valgrind.log"],
            shared=shared,
        )
        stack.callback(door.stop)
        assert door.process
        pid = door.process.pid

        def counted(work: Callable[[], object]) -> tuple[float, float]:
            """Thousands of instructions, and seconds."""
            _control(pid, "--instr=on")
            _control(pid, "--zero")
            began = time.monotonic()
            work()
            took = time.monotonic() - began
            _control(pid, "--dump")
            _control(pid, "--instr=off")
            dump = max(folder.glob("callgrind.*"), key=lambda path: int(path.suffix[1:]))
            totals = [line for line in dump.read_text().splitlines() if line.startswith("totals:")]
            return int(totals[-1].split()[1]) / 1000, took

        def asked(streams: int, chunks: int, pause_ms: int, times: int) -> float:
            """A request's part, without what goes on beside it."""
            # What is done once is done before.
            asyncio.run(together(door.url, doors.KEY, streams, chunks, 0))
            time.sleep(1)
            many = [(door.url, doors.KEY, streams, chunks, pause_ms)] * times
            all_of_it, took = counted(lambda: [asyncio.run(together(*each)) for each in many])
            return (all_of_it - took * idle / idle_s) / (streams * times)

        asyncio.run(together(door.url, doors.KEY, 1, 1, 0))
        idle, idle_s = counted(lambda: time.sleep(IDLE_S))
        found = {}
        for name, part in PARTS.items():
            found[name] = asked(*part)
            print(f"  {TREE.name}: {name}: {found[name]:,.0f}", file=sys.stderr, flush=True)
        found["a chunk"] = (asked(1, CHUNKS, APART_MS, 1) - found["a request"]) / CHUNKS
        return found


def _control(pid: int, word: str) -> None:
    quiet = subprocess.DEVNULL
    subprocess.run(["callgrind_control", word, str(pid)], check=True, stdout=quiet, stderr=quiet)


def main() -> None:
    """One tree after the other, and a table in Markdown."""
    if "--one" in sys.argv:
        print(json.dumps(measure()))
        return
    trees = [Path(each) for each in (os.environ.get("BEFORE"), _OWN) if each]
    if not shutil.which("callgrind_control"):
        sys.exit("no `callgrind_control` is found, which counts: install the package `valgrind`")
    for tree in trees:
        if not (tree / "tests/bench/door").is_dir():
            sys.exit(f"BEFORE={tree}: this is no worktree; `git worktree add {tree} COMMIT` makes one")
    environment = {**os.environ, "LITELLM": str(doors.LITELLM)}
    rows = []
    for tree in trees:
        argv = [sys.executable, __file__, "--one"]
        said = subprocess.run(argv, cwd=tree, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        rows.append(json.loads(said.splitlines()[-1]))
    print(
        "| thousands of instructions | " + " | ".join(["before", "now", "ratio"] if len(rows) > 1 else ["now"]) + " |"
    )
    print("|---" * (len(rows) + 1 + (len(rows) > 1)) + "|")
    for name in rows[-1]:
        cells = [f"{row[name]:,.0f}" for row in rows]
        cells += [f"{rows[1][name] / rows[0][name]:.3f}"] if len(rows) > 1 else []
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
