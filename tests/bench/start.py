"""How long a start takes, phase by phase: cold and warm, by loader, against reading the same files with O_DIRECT.

    make bench-start ENGINE="vllm serve" [GIB=20] [LOADERS="engine fastsafetensors"] [FLAGS="--enforce-eager"]
                     [PLACE=/fast/disk] [TOKENIZER=folder] [ROUNDS=1]

ENGINE is a command that is followed by a model's folder and vLLM's flags; it runs on this machine, with a GPU or
without one. The model has random weights (tests/bench/start_weights.py). Cold means that the kernel has dropped what it
caches of its files. LOADERS are values of the knob `loader`; `auto` starts the engine by the program that chooses in a
container (files/engine/loader.py). The disk is read anew before each round. What the engine logs is kept beside the
result.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import shlex
import signal
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from operations.node.unit import phases
from operations.plan.engines import ENGINES, loaders, starts
from tests.bench import start_weights
from tests.gpu import engines
from tests.node.shipped import FILES, load, part
from tests.support.ports import free_port

#: What says whether an engine has loaded, and what has been read from disks, as on a node.
ANSWERS, READ_MIB = load("engine/memory.py").answers, part("engine", "starts").paged_in_mib
RESULT = Path(__file__).parents[2] / "bench-start.json"
#: Reads of a disk that go on at once, and bytes of each: an NVMe is at its best with both.
READERS, PIECE = 8, 8 << 20
PATIENCE_S = 3600.0


@dataclass(frozen=True)
class Started:
    """One start. `cold`: nothing of the files was in memory; `seconds` until it answered; `gib` of the files;
    `read_gib`: what came from disks meanwhile; `host_gib`: the most memory of the host that was gone beside the page
    cache; `began`: seconds since 1970.
    """

    loader: str
    cold: bool
    seconds: float
    gib: float
    phases: dict[str, float]
    read_gib: float = 0.0
    host_gib: float = 0.0
    began: float = 0.0
    problem: str = ""

    @property
    def rate(self) -> float:
        """GiB a second of the weights; 0: there was no such phase."""
        took = self.phases.get("weights", 0.0)
        return self.gib / took if took else 0.0


def main() -> int:
    """Measure, print a table, write bench-start.json."""
    engine = shlex.split(os.environ.get("ENGINE", ""))
    if not engine:
        print('say what is to be started: make bench-start ENGINE="vllm serve"', file=sys.stderr)
        return 2
    ways = os.environ.get("LOADERS", "engine").split()
    known = (loaders.ENGINE, loaders.AUTO, *ENGINES["vllm"].LOADERS)
    if wrong := [each for each in ways if each not in known]:
        print(f"LOADERS: {', '.join(wrong)} is none; expected some of: {', '.join(known)}", file=sys.stderr)
        return 2
    tokenizer = os.environ.get("TOKENIZER")
    place = Path(os.environ.get("PLACE", "/var/tmp/tandem-bench-start"))
    model = start_weights.make(place, float(os.environ.get("GIB", "1")), Path(tokenizer) if tokenizer else None)
    files = sorted(model.glob("*.safetensors"))
    flags = shlex.split(os.environ.get("FLAGS", ""))
    found, direct = list[Started](), list[float]()
    for number in range(int(os.environ.get("ROUNDS", "1"))):
        direct.append(read_direct(files))
        for loader in ways:
            for cold in (True, False):
                if cold:
                    forget(files)
                found.append(start(engine, model, loader, flags, cold=cold, log=f"{number + 1}-"))
                told = {"direct_gib_s": direct, "starts": [{**asdict(each), "gib_s": each.rate} for each in found]}
                # What is broken off has what it has measured.
                RESULT.write_text(json.dumps(told, indent=1))
    Console(width=220).print(table(found, statistics.median(direct)))
    return 1 if any(each.problem for each in found) else 0


def start(engine: list[str], model: Path, loader: str, flags: list[str], *, cold: bool, log: str = "") -> Started:
    """Start the engine, wait for its answer, end it. `log`: how the name of its log begins."""
    port, known = free_port(), ENGINES["vllm"].LOADERS
    chosen = known[loader].flags if loader in known else ()
    before = _chooser(model.parent) if loader == loaders.AUTO else []
    argv = [*before, *engine, str(model), "--host", "127.0.0.1", "--port", str(port), *chosen, *flags]
    lines, began, read, free = list[tuple[float, str]](), time.time(), READ_MIB(), _available_mib()
    least = free
    running = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0, start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    # No container is made here: what Tandem's start.sh says begins with the program.
    lines.append((began, starts.RUNS))
    reader = threading.Thread(target=_read, args=(running, lines), daemon=True)
    reader.start()
    problem = ""
    try:
        while not ANSWERS(f"http://127.0.0.1:{port}{ENGINES['vllm'].SIGNS.path}"):
            if running.poll() is not None or time.time() - began > PATIENCE_S:
                reader.join(5)
                problem = next((line for _, line in reversed(lines) if line.strip()), "") or f"ended {running.poll()}"
                break
            time.sleep(0.1)
            least = min(least, _available_mib())
        until = time.time()
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGTERM)
        try:
            running.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    reader.join(5)
    seen = phases.read(list(lines), starts.told(ENGINES["vllm"].STARTS), began, until)
    gib = sum(file.stat().st_size for file in model.glob("*.safetensors")) / start_weights.GIB
    how = f"{log}{loader}-{'cold' if cold else 'warm'}"
    (model.parent / f"{how}.log").write_text("\n".join(f"{when - began:9.3f} {line}" for when, line in lines))
    print(f"  {how}: {until - began:.1f} s {problem}", file=sys.stderr, flush=True)
    read_gib, host_gib = (READ_MIB() - read) / 1024, (free - least) / 1024
    return Started(loader, cold, until - began, gib, seen["phases"], read_gib, host_gib, began, problem)


def _chooser(place: Path) -> list[str]:
    """The program that chooses, beside what it may choose for a recipe that says nothing of it."""
    recipe = engines.recipe("dense-14b")
    # Memory is not asked for here, so its weights only have to be known.
    model = recipe.model.model_copy(update={"weights_gib": 1.0})
    recipe = recipe.model_copy(update={"flags": (), "engine_version": None, "model": model})
    runs, knobs = ENGINES["vllm"], engines.knobs(recipe=recipe.name, topology="solo", loader=loaders.AUTO)
    (place / "loader.py").write_text((FILES / "engine/loader.py").read_text())
    (place / "loader.json").write_text(json.dumps(loaders.choices(recipe, knobs, runs.LOADERS, runs.LOADS, math.inf)))
    return [sys.executable, str(place / "loader.py")]


def _available_mib() -> int:
    words = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:"))
    return int(words.split()[1]) // 1024


def _read(running: subprocess.Popen[bytes], lines: list[tuple[float, str]]) -> None:
    assert running.stdout
    for line in running.stdout:
        lines += [(time.time(), part) for part in line.decode(errors="replace").rstrip("\n").split("\r") if part]


def forget(files: list[Path]) -> None:
    """The kernel keeps nothing of them in memory: what is on the disk can go."""
    os.sync()
    for file in files:
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_direct(files: list[Path]) -> float:
    """GiB a second at which the files can be read past the page cache, by several readers at once; 0: this file system
    can't.
    """
    pieces = [(file, at) for file in files for at in range(0, file.stat().st_size, PIECE)]
    began = time.monotonic()
    try:
        with ThreadPoolExecutor(READERS) as pool:
            count = sum(pool.map(lambda piece: _read_piece(*piece), pieces))
    except OSError:
        return 0.0
    return count / start_weights.GIB / (time.monotonic() - began)


def _read_piece(file: Path, at: int) -> int:
    # O_DIRECT wants memory at whole pages, which a mapping is.
    opened = os.open(file, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, PIECE) as into:
            return os.preadv(opened, [into], at)
    finally:
        os.close(opened)


def table(found: list[Started], direct: float) -> Table:
    """A row for each start; the last column: the whole start against reading its files at the disk's own speed."""
    names = list(dict.fromkeys(name for each in found for name in each.phases))
    made = Table(
        *("loader", "files", "start", *names, "GiB/s", "from disk", "beside", "start / O_DIRECT"),
        box=None,
        pad_edge=False,
    )
    for each in found:
        ideal = each.gib / direct if direct else 0.0
        passed = (f"{each.phases[name]:.1f} s" if name in each.phases else "" for name in names)
        ratio = f"{each.seconds / ideal:.1f}" if ideal else "no O_DIRECT here"
        read = f"{each.read_gib:.1f} GiB", f"{each.host_gib:.1f} GiB"
        made.add_row(
            each.loader,
            "cold" if each.cold else "warm",
            f"{each.seconds:.1f} s",
            *passed,
            f"{each.rate:.2f}",
            *read,
            ratio,
        )
    made.caption = f"read past the page cache by {READERS} readers: {direct:.2f} GiB/s"
    return made


if __name__ == "__main__":
    sys.exit(main())
