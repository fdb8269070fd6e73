"""`make test-clients`: real client programs do their work at the real door, over an engine's double; a table of it.

`python -m tests.clients [install|run]`: one half of it. The first needs the registries, the second no network at all.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.clients import installed
from tests.clients.agents import AGENTS, tried
from tests.clients.whole_door import KEY, WholeDoor, whole_door
from tests.plan.samples import ROOT

PAGE = ROOT / "docs/clients.md"
BEGIN, END = "<!-- what `make test-clients` writes -->", "<!-- its end -->"
HERE = Path(__file__).parent / "programs"
#: Task -> what it is called in the table.
TASKS = {
    "answer": "answer",
    "stream": "stream",
    "tool": "a file by a tool call",
    "vector": "vector",
    "vector, base64": "vector, base64",
    "picture": "picture",
    "interrupt": "left in the midst",
    "silence": "9 s of silence, borne for 5",
}
#: Seconds after which a stream says that it lives, here.
ALIVE_S = "2"
#: Seconds for a library's program, with all of its tasks, on a machine with much else to do.
WORK_S = 900


def libraries() -> Iterator[tuple[str, list[str]]]:
    """Their names, and what runs their tasks."""
    for package, program in (("openai", "openai_python"), ("anthropic", "anthropic_python")):
        yield (
            f"{package} {installed.PYTHON[package]} (Python)",
            [installed.python(package), str(HERE / f"{program}.py")],
        )
    for package in ("langchain-openai", "langchain-anthropic"):
        argv = [installed.python(package), str(HERE / "langchain_both.py"), package.partition("-")[2]]
        yield f"{package} {installed.PYTHON[package]}", argv
    # A module is looked for beside who wants it.
    shutil.copytree(HERE, installed.HOME / "npm/programs", dirs_exist_ok=True)
    for package, program in (("openai", "openai_node"), ("@anthropic-ai/sdk", "anthropic_node")):
        yield (
            f"{package} {installed.NODE[package]} (Node)",
            ["node", str(installed.HOME / f"npm/programs/{program}.mjs")],
        )


def outcomes(door: WholeDoor, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Each program, and what is wrong with its tasks."""
    environment = {**os.environ, "DOOR": door.url, "DOOR_KEY": KEY, "ENGINE": door.engines[0].url}
    for name, argv in libraries():
        yield name, _told(name, _program(argv, folder, environment))
    for number, agent in enumerate(AGENTS):
        name = f"{agent.name} {({**installed.NODE, **installed.PYTHON})[agent.name]}"
        yield name, _told(name, tried(agent, door, folder / str(number)))


def _told(name: str, tasks: Iterator[tuple[str, str]]) -> dict[str, str]:
    """Tasks and what is wrong with them, each told as it ends."""
    said, began = dict[str, str](), time.monotonic()
    for task, wrong in tasks:
        said[task] = wrong
        print(f"  {time.monotonic() - began:.0f} s: {name}: {task}: {wrong or 'works'}", file=sys.stderr, flush=True)
    return said


def _program(argv: list[str], folder: Path, environment: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The tasks of a library's program."""
    said = False
    with (
        tempfile.TemporaryFile("w+") as words,
        subprocess.Popen(argv, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=words, text=True) as process,
    ):
        late = threading.Timer(WORK_S, process.kill)
        late.start()
        assert process.stdout
        for line in process.stdout:
            if line.startswith('{"task"'):
                told, said = json.loads(line), True
                yield told["task"], told["wrong"]
        process.wait()
        late.cancel()
        words.seek(0)
        why = f"nothing after {WORK_S} s" if process.returncode < 0 else words.read().strip().rpartition("\n")[2]
    if process.returncode < 0 or not said:
        yield "its end" if said else "answer", why or "it said nothing"


def table(rows: list[tuple[str, dict[str, str]]]) -> str:
    """What is in no column stands behind the table."""
    lines = ["| program | " + " | ".join(TASKS.values()) + " | more |", "|---" * (len(TASKS) + 2) + "|"]
    for name, said in rows:
        cells = ["" if task not in said else said[task] or "works" for task in TASKS]
        more = ", ".join(f"{task}: {wrong}" if wrong else task for task, wrong in said.items() if task not in TASKS)
        lines.append(f"| {name} | " + " | ".join(cell.replace("|", "\\|") for cell in [*cells, more]) + " |")
    return "\n".join(lines)


def run() -> int:
    """How many tasks do not work."""
    os.environ["TANDEM_ALIVE_S"] = ALIVE_S
    rows = []
    folder = Path(tempfile.mkdtemp(prefix="clients-"))
    try:
        with whole_door(folder / "door") as door:
            for name, said in outcomes(door, folder):
                rows.append((name, said))
                print(name, {task: wrong or "works" for task, wrong in said.items()}, flush=True)
    finally:
        shutil.rmtree(folder)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, behind = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{behind}")
    return sum(bool(wrong) for _, said in rows for wrong in said.values())


if __name__ == "__main__":
    part = sys.argv[1:]
    if part != ["run"]:
        installed.install()
    sys.exit(1 if part != ["install"] and run() else 0)
