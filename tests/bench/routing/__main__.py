"""LiteLLM's ways to choose an engine, Tandem's own and other balancers, side by side over the same two engines.

    make bench-routing                                     doubles of a GB10, ten times as fast (SPEED=)
    ENGINES=http://A:8000,http://B:8000 make bench-routing real engines, idle otherwise; their /metrics are asked
    DOORS="simple-shuffle balanced" USERS="2 8" REPEATS=5  fewer or other ways, users, repeats
    URL=http://HEAD:4000 KEY=... NAME=balanced             one door that runs already, over ENGINES

Without `haproxy` or `vllm-router` on the PATH (HAPROXY=, VLLM_ROUTER=: where else) their rows are left out.
Writes bench-routing.json and prints the table.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.bench.routing import doors
from tests.bench.routing.counters import Looks, counts
from tests.bench.routing.http import request
from tests.bench.routing.load import Load, Size
from tests.bench.routing.table import Step, markdown, step

SPEED = float(os.environ.get("SPEED", "10"))
#: Tokens of a piece of the doubles' streams: what two cores can pass on at that speed.
PIECE = 16
REPEATS = int(os.environ.get("REPEATS", "3"))
USERS = [int(each) for each in os.environ.get("USERS", "2 8 64").split()]
#: Users that have conversations: more would be single requests with another name.
AGENTS = [each for each in USERS if each <= 8]
RESULT = doors.ROOT / "bench-routing.json"


def ways(engines: Sequence[str], model: str, folder: Path) -> dict[str, Callable[[], doors.Door]]:
    """How each door is opened, by the name that DOORS calls it."""
    found: dict[str, Callable[[], doors.Door]] = {
        name: lambda name=name: doors.litellm(name, engines, model, folder)  # type: ignore[misc]
        for name in ("simple-shuffle", "least-busy", "balanced")
    }
    found["balanced-2"] = lambda: doors.two_processes("balanced", engines, model, folder)
    if doors.there("haproxy"):
        found["haproxy"] = lambda: doors.haproxy(engines, folder)
    if doors.there("vllm-router"):
        for policy in ("power_of_two", "cache_aware"):
            found[f"vllm-router-{policy}"] = lambda policy=policy: doors.vllm_router(engines, folder, policy)  # type: ignore[misc]
    return found


def double(stack: ExitStack, speed: float = SPEED, piece: int = PIECE) -> str:
    """An engine that is none; it ends with the stack. Its URL."""
    port = doors.free_port()
    argv = [sys.executable, "-m", "tests.bench.routing.double_server", str(port), str(speed), str(piece)]
    process = subprocess.Popen(argv, cwd=doors.ROOT)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return f"http://127.0.0.1:{port}"


async def up(engine: str) -> str:
    """Waits for an engine's answer; the name that it serves."""
    for _ in range(600):
        try:
            async with request(f"{engine}/v1/models") as response:
                return str((await response.json())["data"][0]["id"])
        except OSError:
            await asyncio.sleep(0.1)
    raise SystemExit(f"{engine} does not answer: start the engine, or leave ENGINES out for doubles")


async def measure(load: Load, kind: str, engines: Sequence[str], repeat: int, speed: float) -> Step:
    """One step; engines that are still at work from the last one are waited for."""
    while any([(await counts(engine)).busy for engine in engines]):
        await asyncio.sleep(0.1)
    before = [await counts(engine) for engine in engines]
    looks = Looks(engines)
    looking, began = asyncio.create_task(looks.run()), time.monotonic()
    await (load.singles() if kind == "single requests" else load.conversations())
    took = time.monotonic() - began
    looking.cancel()
    counted = [(await counts(engine)).since(each) for engine, each in zip(engines, before, strict=True)]
    more = {"took": took, "speed": speed} | ({} if looks.skew is None else {"skew": looks.skew})
    return step(load.door.name, kind, load.users, repeat, load.answers, counted, **more)


async def measure_all(opened: Sequence[doors.Door], engines: Sequence[str], model: str, speed: float) -> list[Step]:
    """Every door in turn under each load, so that what changes meanwhile changes for all of them."""
    steps = []
    for repeat in range(REPEATS):
        for kind, users in [*(("single requests", n) for n in USERS), *(("conversations", n) for n in AGENTS)]:
            for number, door in enumerate(opened):
                # Prompts of its own for each step: nothing is cached from the one before.
                load = Load(door, model, Size(), seed=1000 * repeat + 10 * users + number, users=users, speed=speed)
                steps.append(await measure(load, kind, engines, repeat, speed))
                print(f"  {steps[-1]}", file=sys.stderr, flush=True)
                RESULT.write_text(json.dumps([dataclasses.asdict(each) for each in steps], indent=1) + "\n")
    return steps


def main() -> int:
    """Measure, print the table, write bench-routing.json."""
    # Ended by a signal, it takes what it has started with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    given = [each for each in os.environ.get("ENGINES", "").split(",") if each]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engines = given or [double(stack), double(stack)]
        model, *_ = [asyncio.run(up(engine)) for engine in engines]
        opened = []
        if url := os.environ.get("URL"):
            opened.append(doors.Door(os.environ.get("NAME", "proxy"), url, os.environ.get("KEY", "")))
        else:
            known = ways(engines, model, folder)
            wanted = os.environ.get("DOORS", " ".join(known)).split()
            if unknown := [each for each in wanted if each not in known]:
                print(f"DOORS: {unknown[0]!r} is not to be had here; there are {' '.join(known)}", file=sys.stderr)
                return 2
            for name in wanted:
                opened.append(known[name]())
                stack.callback(opened[-1].stop)
        steps = asyncio.run(measure_all(opened, engines, model, 1.0 if given else SPEED))
    print(f"{'real engines' if given else f'doubles of a GB10, {SPEED:g} times as fast'}; {REPEATS} repeats")
    print(markdown(steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
