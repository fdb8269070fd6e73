"""What the proxy costs: an engine's double alone, through LiteLLM, and through HAProxy before one and two of them.

    make bench-door                    a median of three, side by side (REPEATS=)

CPU is that of the proxies' processes (/proc/PID/stat). Engines, clients and proxies share the machine. On two cores one
LiteLLM leaves nothing free for a second one. So what the second one brings is measured with each of them held at a
quarter of a core, where control groups can be made (as root).
Writes bench-door.json and prints the table.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from operations.paths import PROXY, PROXY_RUN, SOCKETS
from tests.bench.door.client import together
from tests.bench.routing import doors
from tests.lab import cgroup
from tests.plan.samples import plan
from tests.support.ports import free_port

LITELLMS_OWN_WAY = Path(__file__).parent / "doubles/passthrough.py"
REPEATS = int(os.environ.get("REPEATS", "3"))
RESULT = doors.ROOT / "bench-door.json"
#: Of a machine that runs nothing else the engines are soon there.
START_S = 30
#: The part of a core that each LiteLLM gets where they are held, and the chunks of each of 64 streams there.
HELD, HELD_CHUNKS = 0.25, 1500
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Way:
    """How an engine is reached, and the processes that are in it."""

    name: str
    url: str
    key: str
    pids: Sequence[int] = ()
    #: Those of them that are LiteLLM behind HAProxy.
    litellm: Sequence[int] = ()

    def cpu_s(self) -> float:
        """Seconds of CPU that its processes have had."""
        return sum(_cpu_s(pid) for pid in self.pids)


def _cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS


async def measure(way: Way) -> dict[str, float]:
    """One row."""
    await together(way.url, way.key, 8, 4, 0)
    burst = sorted(each.first_s for each in await together(way.url, way.key, 64, 40, 50))
    before, requests = way.cpu_s(), 200
    for _ in range(requests // 8):
        await together(way.url, way.key, 8, 1, 0)
    request_s = (way.cpu_s() - before) / requests
    before = way.cpu_s()
    chunks = sum(each.chunks for each in await together(way.url, way.key, 8, 400, 20))
    chunk_s = (way.cpu_s() - before - 8 * request_s) / chunks
    began = time.perf_counter()
    many = sum(each.chunks for each in await together(way.url, way.key, 64, 300, 0))
    return {
        "ttft_p50_ms": burst[31] * 1000,
        "ttft_p99_ms": burst[63] * 1000,
        "request_ms": request_s * 1000,
        "chunk_ms": chunk_s * 1000,
        "chunks_s": many / (time.perf_counter() - began),
    }


async def rate(way: Way) -> float:
    """Chunks a second of 64 long streams."""
    await together(way.url, way.key, 64, 40, 0)
    began = time.perf_counter()
    chunks = sum(each.chunks for each in await together(way.url, way.key, 64, HELD_CHUNKS, 0))
    return chunks / (time.perf_counter() - began)


@contextmanager
def program(argv: Sequence[str], **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process, as long as this lasts."""
    process = subprocess.Popen(argv, **more)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def haproxy(
    folder: Path,
    port: int,
    behind: Sequence[Path],
    stack: ExitStack,
    changes: Mapping[str, str] | None = None,
) -> list[int]:
    """As a deploy renders it, but for `changes`, before LiteLLM that write to these folders; its processes."""
    mine = plan(topology="solo", proxy_port=port).head.container(PROXY)
    assert mine
    text = next(file.content for file in mine.files if file.path.endswith("haproxy.cfg"))
    text = re.sub(
        r"^ +server .*\n", "", text.replace(PROXY_RUN, str(folder)).replace(SOCKETS, str(folder)), flags=re.M
    ).rstrip()
    servers = [f"    server s{at} unix@{used}/listens check addr unix@{used}/pulse" for at, used in enumerate(behind)]
    for old, new in (changes or {}).items():
        assert old in text
        text = text.replace(old, new)
    config = folder / "haproxy.cfg"
    config.write_text("\n".join([text, *servers, ""]))
    process = stack.enter_context(
        program(["haproxy", "-W", "-db", "-f", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    )
    until(lambda: len(_children(process.pid)) == 1)
    # A server is up behind two answers.
    time.sleep(2)
    return [process.pid, *_children(process.pid)]


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def until(ready: Callable[[], bool]) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + START_S
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError("it does not start")
        time.sleep(0.1)


def ways(folder: Path, stack: ExitStack) -> list[Way]:
    """All of them, running."""
    engines = [free_port() for _ in range(2)]
    urls = [f"http://127.0.0.1:{port}" for port in engines]
    for port in engines:
        argv = [sys.executable, "-m", "tests.bench.door.engine", str(port)]
        stack.enter_context(program(argv, cwd=doors.ROOT))
    found = [Way("the engine alone", urls[0], "")]

    def litellm(name: str, instead: Sequence[Path] = (), shared: Path | None = None) -> tuple[doors.Door, Path]:
        door = doors.litellm("balanced", urls, "double", folder / name, instead=instead, shared=shared)
        stack.callback(door.stop)
        return door, folder / name / "balanced/used"

    def pid(door: doors.Door) -> int:
        assert door.process
        return door.process.pid

    old, _ = litellm("old", instead=[LITELLMS_OWN_WAY])
    found.append(Way("LiteLLM's own way", old.url, doors.KEY, [pid(old)]))
    shared = folder / "shared"
    shared.mkdir()
    both = [litellm(name, shared=shared) for name in "ab"]
    found.append(Way("LiteLLM", both[0][0].url, doors.KEY, [pid(both[0][0])]))
    for count in (1, 2):
        inner, port = both[:count], free_port()
        home = folder / f"haproxy-{count}"
        home.mkdir()
        pids = haproxy(home, port, [used for _, used in inner], stack)
        url = f"http://127.0.0.1:{port}"
        own = [pid(door) for door, _ in inner]
        found.append(Way(f"HAProxy before {count} LiteLLM", url, doors.KEY, [*pids, *own], own))
    return found


def table(rows: dict[str, dict[str, float]]) -> str:
    """Markdown."""
    lines = [
        "| | TTFT of 64 at once, p50 / p99, ms | CPU a request, ms | CPU a chunk, ms | chunks a second, 64 streams |"
    ]
    lines.append("|---|---|---|---|---|")
    for name, row in rows.items():
        cpu = f"{row['request_ms']:.1f} | {row['chunk_ms']:.3f}" if row["request_ms"] else " | "
        ttft = f"{row['ttft_p50_ms']:.0f} / {row['ttft_p99_ms']:.0f}"
        lines.append(f"| {name} | {ttft} | {cpu} | {row['chunks_s']:,.0f} |")
    return "\n".join(lines)


def second(found: Sequence[Way]) -> list[float]:
    """What the second LiteLLM brings where its CPU is free: chunks a second with one and with two; empty: processes
    can't be held here.
    """
    ways = [way for way in found if way.litellm]
    with ExitStack() as stack:
        try:
            for pid in {pid for way in ways for pid in way.litellm}:
                stack.enter_context(cgroup.process_held(pid, HELD))
        except OSError as error:
            print(f"no LiteLLM was held at a part of a core: {error}", file=sys.stderr)
            return []
        rounds = [[asyncio.run(rate(way)) for way in ways] for _ in range(REPEATS)]
    return [median(rates) for rates in zip(*rounds, strict=True)]


def main() -> None:
    """Each way in turn, REPEATS times."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        found = ways(Path(folder), stack)
        runs: dict[str, list[dict[str, float]]] = {way.name: [] for way in found}
        for number in range(REPEATS):
            for way in found:
                runs[way.name].append(asyncio.run(measure(way)))
                print(f"  {number + 1} of {REPEATS}: {way.name}", file=sys.stderr, flush=True)
        # Last: who was held is in another group afterwards.
        rates = second(found)
    rows = {name: {key: median(run[key] for run in mine) for key in mine[0]} for name, mine in runs.items()}
    RESULT.write_text(json.dumps({"median": rows, "runs": runs, "held_chunks_s": rates}, indent=1) + "\n")
    print(table(rows))
    if rates:
        one, two = rates
        words = f"{one:,.0f} chunks a second with one, {two:,.0f} with two ({two / one:.2f} times)"
        print(f"each LiteLLM held at {HELD} of a core: {words}")


if __name__ == "__main__":
    main()
