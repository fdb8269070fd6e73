"""Steps of the bench against engines and proxies of one host: the same client, prompts and records as `make bench`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.conversations import Count, conversations
from bench.figures import figures
from bench.process import Client
from bench.profiles import Profile
from bench.records import Counters, Folder, NodeState, Request, Step
from bench.steps import Wanted
from operations.node.look import bench_facts
from operations.plan.engines import counters
from tests.gpu.engines import Engine
from tests.gpu.proxies import KEY

#: Seconds for one answer; the slowest here takes ten.
TIMEOUT_S = 120
#: Seconds in which engines count what has just ended.
SETTLE_S = 0.2
#: The host as the records name it: its state is of both GPUs together.
HOST = "host"


@dataclass(frozen=True)
class Target:
    """What is asked: a proxy (`proxy`) or one engine, and the engines behind it."""

    setup: str
    name: str
    url: str
    engines: tuple[Engine, ...]

    @property
    def key(self) -> str:
        return KEY if self.name == "proxy" else ""


@dataclass(frozen=True)
class Bench:
    """What all steps of a run have in common. Raises Refusal where the client has ended."""

    client: Client
    folder: Folder
    profile: Profile
    model: str
    seed: int
    count: Count

    def step(self, target: Target, users: int, repeat: int) -> Step:
        """One step, written behind the others; a line of it on standard output."""
        length = int(self.profile.prompts[0])
        wanted = Wanted(target.setup, target.name, users, repeat, length, self.profile.answer)
        name = wanted.name
        # The engines are the same for all setups: what one has been asked lies in their caches.
        asked = conversations(self.profile, wanted, f"{self.seed}/{name}", (), self.count)
        urls = {engine.name: engine.url for engine in target.engines}
        before = _looked(urls)
        requests: Any = []
        began = time.time()
        done = self.client.order(
            "load",
            requests.append,
            url=f"{target.url}/v1",
            key=target.key,
            model=self.model,
            users=users,
            conversations=asked,
            extra={"temperature": 0, "ignore_eos": True},
            timeout_s=TIMEOUT_S,
        )
        time.sleep(SETTLE_S)
        after = _looked(urls)
        step = Step(
            name=name,
            setup=target.setup,
            target=target.name,
            users=users,
            repeat=repeat,
            prompt_tokens=length if self.profile.is_fresh else None,
            answer_tokens=self.profile.answer,
            requests=len(requests),
            began=began,
            took_s=done["took_s"],
            engines=_since(before, after),
            before={HOST: _state(before)},
            after={HOST: _state(after)},
        )
        self._write(step, requests)
        return step

    def _write(self, step: Step, told: Sequence[Mapping[str, Any]]) -> None:
        requests = [
            Request(step=step.name, **{name: value for name, value in each.items() if name != "text"}) for each in told
        ]
        with self.folder.requests.open("a") as file:
            file.writelines(f"{each.model_dump_json()}\n" for each in requests)
        with self.folder.steps.open("a") as file:
            file.write(f"{step.model_dump_json()}\n")
        found = figures(step, requests, None)
        told_all = sum(each.answer_tokens or 0 for each in requests) / step.took_s
        print(
            f"{step.name}: {told_all:.1f} tok/s in all, TTFT {found.ttft_s and round(found.ttft_s.p50 * 1000)} ms, "
            f"share {found.largest_share and round(found.largest_share, 3)}, "
            f"cached {found.prefix_share and round(found.prefix_share, 3)}, errors {found.errors}, "
            f"{step.took_s:.1f} s",
            flush=True,
        )
        for error in sorted({each.error for each in requests if each.error}):
            print(f"    {error}", flush=True)


def _looked(urls: Mapping[str, str]) -> dict[str, Any]:
    """What bench_facts says beside each engine."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(urls, pool.map(partial(bench_facts.main, counters=counters()), urls.values()), strict=True))


def _since(before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]) -> dict[str, Counters]:
    """Of engines that have counted."""
    return {
        name: Counters(**{each: value - before[name]["counters"][each] for each, value in looked["counters"].items()})
        for name, looked in after.items()
        if looked["counters"] and before[name]["counters"]
    }


def _state(looked: Mapping[str, Mapping[str, Any]]) -> NodeState:
    """All engines are on one host."""
    return NodeState(**next(iter(looked.values()))["state"])
