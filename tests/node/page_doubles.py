"""Doubles for the page: exporters and a Prometheus that say what a test wants, and the real program before them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import Message
from pathlib import Path
from typing import Any

from operations.paths import PAGE, PROXY_USER
from operations.plan.plan import Plan
from tests.node.relay import Relay
from tests.node.shipped import FILES
from tests.plan.samples import plan
from tests.support.serving import Quiet, Server

KEY = "sk-the-owners"
#: Of the program's waits those that a test would only sit out: what the file has, and what it has here.
QUICKER = {
    "asking.py": ("GOOD_S, WAIT_S = 2.0, 1.0", "GOOD_S, WAIT_S = 0.3, 1.0"),
    "last_hour.py": ("EVERY_S, KEPT = 10.0, 360", "EVERY_S, KEPT = 2.0, 360"),
}
#: Seconds after which the page asks again who has just answered, and in which it has looked once more.
ANEW_S, LOOK_S = 0.8, 3.0
BASIS = {
    'tandem_unit_active{{unit="tandem-engine"}}': "1",
    'tandem_unit_failed{{unit="tandem-engine"}}': "0",
    'tandem_unit_active_since_seconds{{unit="tandem-engine"}}': "{since}",
    'tandem_source_up{{source="engine"}}': "1",
    "tandem_memory_bytes": "137438953472.0",
    "tandem_memory_available_bytes": "42949672960.0",
    "tandem_memory_floor_bytes": "4294967296.0",
    'tandem_disk_bytes{{path="/"}}': "1e12",
    'tandem_disk_free_bytes{{path="/"}}': "5e11",
    'tandem_gpu_clock_hertz{{gpu="0"}}': "2.281e9",
    'tandem_rail_carrier{{device="enp1s0f0np0"}}': "1",
    'tandem_rail_speed_bits{{device="enp1s0f0np0"}}': "2e11",
    'tandem_rail_carrier{{device="enP2p1s0f0np0"}}': "1",
    'vllm:num_requests_running{{model_name="nemotron"}}': "3",
    'vllm:num_requests_waiting{{model_name="nemotron"}}': "2",
    'vllm:kv_cache_usage_perc{{model_name="nemotron"}}': "0.25",
}


class Double(Server):
    """Answers each path with a text, after `slow_s`. A counter's value may be a function of the time."""

    def __init__(self, answers: Mapping[str, Callable[[], str]], port: int = 0) -> None:
        self.answers, self.slow_s = answers, 0.0

        class Handler(Quiet):
            def do_GET(self) -> None:
                double: Any = self.server
                time.sleep(double.slow_s)
                found = double.answers.get(self.path.partition("?")[0])
                self.reply(found().encode() if found else b"", 200 if found else 404)

        super().__init__(Handler, port)


class Exporter(Double):
    """Of one node, with `changes` to what a node that is well says; None: it does not say that."""

    def __init__(self, port: int = 0) -> None:
        self.changes: dict[str, str | None] = {}
        self.began = time.time()
        events = {"events": [{"when": 1.79e9, "kind": "guard", "text": "tandem-guard: <b>killed</b>"}]}
        super().__init__({"/metrics": self.metrics, "/events.json": lambda: json.dumps(events)}, port)

    def metrics(self) -> str:
        said: dict[str, str | None] = {
            name.format(): value.format(since=self.began - 200) for name, value in BASIS.items()
        }
        # Ten tokens a second, each a tenth of a second after the one before.
        tokens = (time.time() - self.began) * 10 + 100
        said['vllm:generation_tokens_total{model_name="nemotron"}'] = repr(tokens)
        for edge in ("0.05", "0.15", "+Inf"):
            name = f'vllm:inter_token_latency_seconds_bucket{{le="{edge}",model_name="nemotron"}}'
            said[name] = "0" if edge == "0.05" else repr(tokens)
        said |= self.changes
        # This machine has run since 1970.
        since, stamp = "tandem_unit_active_since_seconds", "tandem_unit_active_after_boot_seconds"
        said |= {name.replace(since, stamp): value for name, value in said.items() if name.startswith(since)}
        return "".join(f"{name} {value}\n" for name, value in said.items() if value is not None)


class Page:
    """The real program over these exporters, with what a deploy gives it."""

    def __init__(
        self, folder: Path, exporters: Mapping[str, str], prometheus: str = "", of: Plan | None = None, **knobs: Any
    ) -> None:
        mine = (of or plan(monitoring="metrics", **{"topology": "replicas"} | knobs)).head.services[PAGE]
        assert mine
        for file in mine.files:
            if file.path.startswith("/etc/tandem/page/"):
                name = Path(file.path).name
                slow, quick = QUICKER.get(name, ("", ""))
                assert slow in file.content
                (folder / name).write_text(file.content.replace(slow, quick) if slow else file.content)
        wanted = json.loads((folder / "page.json").read_text())
        for node in wanted["nodes"]:
            node["url"] = exporters[node["name"]]
        self.advice = folder / "handed/advice.json"
        self.advice.parent.mkdir()
        # Short enough for a socket's path; a test's own folder may not be.
        self.socket = f"{tempfile.mkdtemp(prefix='tandem-page-')}/page.sock"
        wanted |= {"socket": self.socket, "asked_by": [os.geteuid(), PROXY_USER]}
        wanted |= {"prometheus": prometheus, "advice": str(self.advice)}
        self.specs = {each["model"]: each["spec"] for each in wanted["models"]}
        (folder / "page.json").write_text(json.dumps(wanted))
        (folder / "credentials").mkdir()
        (folder / "credentials/key").write_text(f"{KEY}\n")
        self.url = Relay(self.socket).url
        argv = [sys.executable, "-B", str(folder / "page.py"), mine.spec]
        environment = {**os.environ, "CREDENTIALS_DIRECTORY": str(folder / "credentials")}
        self.process = subprocess.Popen(argv, env=environment)
        end = time.monotonic() + 20
        while True:
            try:
                self.ask("/tandem/page.css")
                break
            except OSError:
                assert time.monotonic() < end and self.process.poll() is None
                time.sleep(0.1)

    def ask(self, path: str, key: str | None = f"Bearer {KEY}", method: str = "GET") -> tuple[int, bytes, Message]:
        headers = {} if key is None else {"Authorization": key}
        try:
            request = urllib.request.Request(f"{self.url}{path}", headers=headers, method=method)
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read(), error.headers

    def hand(self, text: str) -> None:
        """As operations/node/monitoring/handed.py does."""
        aside = self.advice.with_suffix(".part")
        aside.write_text(text)
        aside.replace(self.advice)

    def told(self, what: str) -> Any:
        status, body, _ = self.ask(f"/tandem/{what}")
        assert status == 200, body
        return json.loads(body)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def sources() -> list[str]:
    """Names of the program's own files."""
    return sorted(file.stem for file in (FILES / "page").glob("*.py"))
