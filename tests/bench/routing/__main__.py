"""LiteLLM's ways to choose an engine, Tandem's own and other balancers, side by side over the same two engines.

    make bench-routing                                     doubles of a GB10, twice as fast (SPEED=)
    ENGINES=http://A:8000,http://B:8000 make bench-routing real engines, idle otherwise; their /metrics are asked
    DOORS="simple-shuffle balanced" USERS="2 8" REPEATS=5  fewer or other ways, users, repeats
    PROMPT=512 ANSWERS=32-256 SHARED=2000 TURN=400         tokens; with equal answers (128-128) requests show the share
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
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.client.count import get
from tests.bench.routing import doors
from tests.bench.routing.counters import Looks, counts
from tests.bench.routing.load import Load, Size
from tests.bench.routing.table import Step, markdown, step
from tests.support.ports import free_port

SPEED = float(os.environ.get("SPEED", "2"))
#: Tokens of a piece of the doubles' streams: what two cores can pass on for several doors at once.
PIECE = 8
REPEATS = int(os.environ.get("REPEATS", "3"))
USERS = [int(each) for each in os.environ.get("USERS", "2 8 64").split()]
#: Users that have conversations: more would be single requests with another name.
AGENTS = [each for each in USERS if each <= 8]
RESULT = doors.ROOT / "bench-routing.json"


def known() -> list[str]:
    """What DOORS may name here."""
    found = ["simple-shuffle", "least-busy", "balanced", "balanced-2"]
    found += ["haproxy"] if doors.there("haproxy") else []
    return found + (["vllm-router-power_of_two", "vllm-router-cache_aware"] if doors.there("vllm-router") else [])


def open_door(name: str, engines: Sequence[str], model: str, folder: Path) -> doors.Door:
    """The door of that name."""
    if name == "haproxy":
        return doors.haproxy(engines, folder)
    if name.startswith("vllm-router-"):
        return doors.vllm_router(engines, folder, name.removeprefix("vllm-router-"))
    if name == "balanced-2":
        return doors.two_processes("balanced", engines, model, folder)
    return doors.litellm(name, engines, model, folder)


def double(stack: ExitStack, speed: float = SPEED, piece: int = PIECE) -> str:
    """An engine that is none; it ends with the stack. Its URL."""
    port = free_port()
    argv = [sys.executable, "-m", "tests.bench.routing.double_server", str(port), str(speed), str(piece)]
    process = subprocess.Popen(argv, cwd=doors.ROOT)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return f"http://127.0.0.1:{port}"


async def up(engine: str) -> str:
    """Waits for an engine's answer; the name that it serves."""
    for _ in range(600):
        found = await get(f"{engine}/v1/models", "")
        if "answer" in found:
            return str(found["answer"]["data"][0]["id"])
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


def size() -> Size:
    """As PROMPT, ANSWERS, SHARED and TURN say. Raises ValueError that names the one that is no number."""
    usual = Size()
    found = {"prompt": usual.prompt, "shared": usual.shared, "turn": usual.turn}
    for name in found:
        given = os.environ.get(name.upper(), str(found[name]))
        if not given.isdecimal():
            raise ValueError(f"{name.upper()}={given!r}: a number of tokens is expected")
        found[name] = int(given)
    answers = os.environ.get("ANSWERS", "-".join(map(str, usual.answers)))
    least, dash, most = answers.partition("-")
    if not (dash and least.isdecimal() and most.isdecimal() and 0 < int(least) <= int(most)):
        raise ValueError(f"ANSWERS={answers!r}: the least and the most tokens are expected, as 32-256")
    return Size(answers=(int(least), int(most)), **found)  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class Way:
    """A door and the engines behind it."""

    door: doors.Door
    engines: Sequence[str]


async def measure_all(ways: Sequence[Way], model: str, of: Size, speed: float, at_once: bool) -> list[Step]:
    """Every door under each load: doors with engines of their own at once, the others in turn, so that what changes
    meanwhile changes for all of them.
    """
    steps: list[Step] = []
    for repeat in range(REPEATS):
        for kind, users in [*(("single requests", n) for n in USERS), *(("conversations", n) for n in AGENTS)]:
            # Prompts of its own for each step, and where engines are shared for each door: nothing is cached before.
            seeds = [1000 * repeat + 10 * users + (0 if at_once else number) for number in range(len(ways))]
            loads = [Load(way.door, model, of, seed, users, speed) for way, seed in zip(ways, seeds, strict=True)]
            asked = [measure(load, kind, way.engines, repeat, speed) for load, way in zip(loads, ways, strict=True)]
            found = await asyncio.gather(*asked) if at_once else [await each for each in asked]
            steps += found
            for each in found:
                print(f"  {each}", file=sys.stderr, flush=True)
            RESULT.write_text(json.dumps([dataclasses.asdict(each) for each in steps], indent=1) + "\n")
    return steps


def main() -> int:
    """Measure, print the table, write bench-routing.json."""
    # Ended by a signal, it takes what it has started with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    given = [each for each in os.environ.get("ENGINES", "").split(",") if each]
    url = os.environ.get("URL")
    if url and not given:
        print("URL: name the engines behind it as well, ENGINES=http://A:8000,http://B:8000", file=sys.stderr)
        return 2
    names = [os.environ.get("NAME", "proxy")] if url else os.environ.get("DOORS", " ".join(known())).split()
    if not url and (unknown := [each for each in names if each not in known()]):
        print(f"DOORS: {unknown[0]!r} is not to be had here; there are {' '.join(known())}", file=sys.stderr)
        return 2
    try:
        of = size()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if not url and not doors.LITELLM.exists():
        print(f"there is no LiteLLM at {doors.LITELLM}: `make venv-proxy` installs it", file=sys.stderr)
        return 2
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engines = [given or [double(stack), double(stack)] for _ in names]
        model, *_ = [asyncio.run(up(engine)) for behind in engines for engine in behind]
        ways = []
        for name, behind in zip(names, engines, strict=True):
            door = doors.Door(name, url, os.environ.get("KEY", "")) if url else open_door(name, behind, model, folder)
            stack.callback(door.stop)
            ways.append(Way(door, behind))
        steps = asyncio.run(measure_all(ways, model, of, 1.0 if given else SPEED, at_once=not given))
    print(f"{'real engines' if given else f'doubles of a GB10, {SPEED:g} times as fast'}; {REPEATS} repeats")
    print(markdown(steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
