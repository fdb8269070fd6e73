"""What a fault is done to: the lab under one plan, and what can be asked of it."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar

from operations.paths import ADDRESS, ENGINE, LITELLM, PROXY
from tests.chaos import client
from tests.lab import chat, gguf, images
from tests.lab.cluster import HEAD, INVENTORY, WORKER, Deploy, deploy, lab, on
from tests.lab.desk import Desk
from tests.lab.settings import MANAGEMENT_NET, LabNode

#: What may be left on a node, a line each: containers; files that a half-finished change leaves, which Tandem writes
#: aside before it renames; node programs of a deploy, whose command line begins so (in brackets the first letter does
#: not find the shell that looks for it); shared memory; the lock. A container without a name is in dockerd's memory
#: alone: it comes up behind a kill, removes the folder of the old one, and goes on to list it until it ends itself.
LEFT = """
docker ps --all --format '{{if .Names}}container {{.Names}}{{end}}' || echo 'docker does not answer'
find /etc/tandem /etc/netplan /var/lib/tandem /home/spark/.cache/huggingface -name '*.part' -o -name '*.tandem-*'
pgrep -af '[i]mport base64,importlib' | cut -c 1-80 | sed 's/^/process /'
find /dev/shm -type f
flock --nonblock /run/tandem.lock true 2>/dev/null || echo 'the lock is held'
"""
#: What the last word of a scene's name changes: how the lab is made, and knobs.
DESKS = {"switch": Desk(wiring="switch"), "NetworkManager": Desk(system="debian13", renderer="NetworkManager")}
KNOBS = {
    "balanced": {"routing": "balanced"},
    "address": {"routing": "balanced", "proxy_address": f"{MANAGEMENT_NET}.50"},
    "fallback": {"fallback": "solo", "fallback_after": "30", "proxy_address": f"{MANAGEMENT_NET}.50"},
}
#: Its inventory has another engine, of which the lab wants an image and a model.
LLAMA, ON_LLAMA = "llama.cpp", "tests/lab/on_llama/inventory.py"
#: Of replicas beside those.
SHUFFLE = {"routing": "simple-shuffle"}
#: One says little: five in a row took 28, 31, 35, 34 and 34 s with nothing beside them (cluster/ray, two cores).
COLD_STARTS = 3


@dataclass
class Scene:
    """One topology with one executor, deployed. `variant`: of DESKS or KNOBS, or LLAMA."""

    CLIENTS: ClassVar[int] = 8
    #: Seconds after which nothing will come any more.
    PATIENCE_S: ClassVar[float] = 300.0
    topology: str
    executor: str
    variant: str = ""
    at: dict[str, str] = field(default_factory=dict)
    expected: dict[str, str] = field(default_factory=dict)
    #: Seconds from `systemctl start` of all ranks until the proxy gives a token: the middle one of COLD_STARTS.
    cold_start_s: float = 0.0

    @classmethod
    def named(cls, name: str) -> Scene:
        """The scene of a name such as `cluster/mp/switch`."""
        topology, *words = name.split("/")
        executor = words.pop(0) if topology == "cluster" else "ray"
        return cls(topology, executor, "".join(words))

    @property
    def name(self) -> str:
        words = (self.topology, self.executor if self.topology == "cluster" else "", self.variant)
        return "/".join(word for word in words if word)

    @property
    def knobs(self) -> dict[str, str]:
        routing = SHUFFLE if self.topology == "replicas" else {}
        return {"topology": self.topology, "executor": self.executor, **KNOBS.get(self.variant, routing)}

    @property
    def address(self) -> str:
        """The virtual one, or nothing."""
        return self.knobs.get("proxy_address", "")

    @property
    def holders(self) -> list[LabNode]:
        """Nodes that have it: one, unless its keepalived hangs."""
        return [node for node in self.serving if on(node, f"ip -o address show to {self.address}").strip()]

    @property
    def inventory(self) -> str:
        return ON_LLAMA if self.variant == LLAMA else INVENTORY

    @property
    def desk(self) -> Desk:
        return DESKS.get(self.variant, Desk())

    @property
    def serving(self) -> list[LabNode]:
        """Nodes with an engine or a rank."""
        return [HEAD] if self.topology == "solo" else [HEAD, WORKER]

    @property
    def engines(self) -> dict[LabNode, str]:
        """Base URL of each engine, by the node that answers."""
        if self.topology == "solo":
            return {HEAD: "http://127.0.0.1:8001"}
        if self.topology == "replicas":
            return {node: f"http://192.168.177.{11 + node.index}:8001" for node in (HEAD, WORKER)}
        return {HEAD: f"http://192.168.177.{11 + HEAD.index}:8001"}

    def deploy(self, **knobs: str) -> Deploy:
        wanted: dict[str, Any] = {**self.knobs, **knobs}
        return deploy(inventory=self.inventory, **wanted)

    def set_up(self) -> None:
        """Boot the nodes that it wants and deploy it; learn the right answers, time cold starts where they are the
        measure.
        """
        lab("up", WIRING=self.desk.wiring, OS=self.desk.system, RENDERER=self.desk.renderer)
        if self.variant == LLAMA:
            gguf.ensure()
            images.ensure((images.LLAMA,))
        first = self.deploy()
        assert first.code == 0, first.text[-3000:]
        self.look()
        if self.topology == "cluster":
            self.cold_start_s = statistics.median(self._time_a_cold_start() for _ in range(COLD_STARTS))

    def look(self) -> Scene:
        """Learn the right answers of what is deployed."""
        self.at = self.endpoint()
        self.expected = client.learn(self.at)
        return self

    def endpoint(self) -> dict[str, str]:
        """Where clients ask, with which key, and for which model."""
        return chat.endpoint(self.inventory)

    def _time_a_cold_start(self) -> float:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: on(node, "systemctl stop tandem-engine"), self.serving))
            start = time.monotonic()
            list(pool.map(lambda node: on(node, "systemctl start --no-block tandem-engine"), self.serving))
        return self.wait_until_all_answer(start, 240)

    def time_a_proxy_start(self) -> float:
        """Seconds from a start of the proxy until it gives a token."""
        on(HEAD, "systemctl stop tandem-proxy")
        start = time.monotonic()
        on(HEAD, "systemctl start --no-block tandem-proxy")
        return self.wait_until_all_answer(start, 120)

    def answers(self, node: LabNode) -> bool:
        """Whether the engine of a node gives a token."""
        body = {"model": self.at["OPENAI_MODEL"], "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        ask = ("curl", "-sf", "-m", "8", f"{self.engines[node]}/v1/chat/completions", "-d", json.dumps(body))
        return "completion_tokens" in self.said(node, *ask, "-H", "Content-Type: application/json")

    def said(self, node: LabNode, *argv: str) -> str:
        """What a command on a node says, whatever it ends with."""
        # From within the node's network: engines start meanwhile, and a login costs seven times the CPU of this.
        inside = ("ip", "netns", "exec", node.namespace, "chroot", str(node.root))
        return subprocess.run([*inside, *argv], capture_output=True, text=True, check=False).stdout

    def proxy_answers(self) -> bool:
        try:
            return bool(client.Client(self.at).ask(client.QUESTIONS[0], 1)[0])
        except Exception:
            return False

    def wait_until_all_answer(self, start: float, within_s: float) -> float:
        """Seconds since `start` until every engine and the proxy give tokens; raises TimeoutError."""
        while not (all(self.answers(node) for node in self.engines) and self.proxy_answers()):
            if time.monotonic() - start > within_s:
                raise TimeoutError(f"not all answer after {within_s:.0f} s")
            time.sleep(0.5)
        return time.monotonic() - start

    def leftovers(self) -> list[str]:
        """Containers, processes, shared memory, locks and half-written files that belong to nobody."""

        def left(node: LabNode) -> list[str]:
            moving = [ADDRESS] if self.address else []
            planned = [ENGINE, PROXY, *LITELLM, *moving] if node in self.serving else []
            lines = on(node, LEFT).splitlines()
            return [f"{node.name}: {line}" for line in lines if line and line.removeprefix("container ") not in planned]

        with ThreadPoolExecutor() as pool:
            return [line for lines in pool.map(left, (HEAD, WORKER)) for line in lines]


def at_once(*work: Callable[[], object]) -> None:
    """Call everything at the same time."""
    with ThreadPoolExecutor(len(work)) as pool:
        for task in [pool.submit(each) for each in work]:
            task.result()
