"""Handling the lab in tests: deploying to it, asking it, breaking it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from operations.paths import ENGINE, LITELLM, PROXY
from tests.lab import chat, node
from tests.lab.settings import LabNode

ROOT = Path(__file__).parents[2]
HEAD, WORKER = LabNode(0), LabNode(1)
INVENTORY = "tests/lab/inventory.py"
#: The containers of a node that serves.
SERVING = sorted([ENGINE, PROXY, *LITELLM])
#: The tiny model on a node.
STORE = "/home/spark/.cache/huggingface/hub/models--tandem-lab--tiny-llama"


@dataclass(frozen=True)
class Deploy:
    """A finished run of pyinfra."""

    code: int
    text: str
    results: dict[str, Any]

    @property
    def refused(self) -> bool:
        """It ended because something was wrong: 1, or 2 where a word of the owner's was not understood."""
        return self.code in (1, 2)

    @property
    def changes(self) -> int:
        """Operations, counted for each node, that were anything but `No changes`."""
        totals = self.results["results"]["totals"]
        return int(totals["hosts"] - totals["no_change"])

    @property
    def changed(self) -> list[str]:
        """Their operations' names, each with its node and what it said."""
        found, operation, said = [], "", list[str]()
        for line in self.text.splitlines():
            if begins := re.match(r"--> Starting operation: (.*?) *$", line):
                operation, said = begins[1], []
            elif done := re.match(r" +\[(.+)\] (?:Success|Changed)", line):
                found.append(f"{operation} ({'; '.join([done[1], *said])})")
            elif line.strip():
                said.append(line.strip())
        return found


def deploy(*arguments: str, file: str = "deploy.py", inventory: str = INVENTORY, **knobs: Any) -> Deploy:
    """`pyinfra -y INVENTORY deploy.py --data ...`; never raises, says all."""
    argv = [sys.executable, "-m", "pyinfra", "-y", "--json", inventory, file, *arguments, *_data(knobs)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=False)
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)
    return Deploy(done.returncode, text, json.loads(done.stdout) if done.stdout.startswith("{") else {})


def doctor(*words: str, inventory: str = INVENTORY, knobs: str = "topology=replicas") -> tuple[int, str, list[str]]:
    """Exit code of `make doctor`, all that was said, and the rows that are bad, a blank between two columns."""
    argv = ["make", "-s", "doctor", f"INVENTORY={inventory}", f"DATA={knobs}", *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    bad = [" ".join(line.split()) for line in done.stdout.splitlines() if line.startswith("bad")]
    return done.returncode, done.stdout, bad


def begin(**knobs: Any) -> subprocess.Popen[str]:
    """The same, only begun: what it says is on its stderr."""
    argv = [sys.executable, "-m", "pyinfra", "-y", INVENTORY, "deploy.py", *_data(knobs)]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def _data(knobs: dict[str, Any]) -> list[str]:
    return [word for name, value in knobs.items() for word in ("--data", f"{name}={value}")]


def on(where: LabNode, command: str, *, check: bool = True) -> str:
    """A command on a node, as root."""
    argv = [*node.ssh_argv(where), f"sudo sh -c {shlex.quote(command)}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{where.name}: `{command}` ended with {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout


def lab(*words: str, **environment: str) -> None:
    """A verb of the lab."""
    argv = [sys.executable, "-m", "tests.lab", *words]
    subprocess.run(argv, cwd=ROOT, env={**os.environ, **environment}, check=True, capture_output=True)


def complete(at: dict[str, str], max_tokens: int = 8) -> int:
    """One chat through the proxy; the number of tokens of its answer."""
    answer = chat.ask(at["OPENAI_BASE_URL"], at["OPENAI_API_KEY"], at["OPENAI_MODEL"], "Hello", max_tokens)
    usage = answer["usage"]
    assert isinstance(usage, dict)
    return int(usage["completion_tokens"])


def complete_many(at: dict[str, str], count: int, at_once: int = 8) -> list[int]:
    """Many chats; raises when one fails."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda _: complete(at), range(count)))


def wait_until_served(at: dict[str, str], within_s: float = 180) -> float:
    """Seconds until the proxy answers with tokens again."""
    start = time.monotonic()
    while time.monotonic() - start < within_s:
        try:
            if complete(at, 1):
                return time.monotonic() - start
        except requests.RequestException:
            time.sleep(1)
    raise AssertionError(f"no answer within {within_s} s")


def containers(where: LabNode) -> list[str]:
    """Names of all containers of a node, running or not."""
    return sorted(on(where, "docker ps --all --format '{{.Names}}'").split())


def requests_served(where: LabNode, address: str) -> float:
    """How many requests an engine has finished, from its own metrics."""
    metrics = on(where, f"curl -s http://{address}:8001/metrics")
    return sum(
        float(line.split()[-1]) for line in metrics.splitlines() if line.startswith("vllm:request_success_total")
    )


def link_bytes(where: LabNode, device: str) -> int:
    """Bytes sent and received on an interface."""
    return sum(int(on(where, f"cat /sys/class/net/{device}/statistics/{way}_bytes")) for way in ("rx", "tx"))
