"""Models on demand on the lab: what their clients wait for, who gives way, and that none is ended that serves.

Three models on the head on memory for two, a fourth one on the worker, all on demand. In order: clients that ask for
all three in turn while one streams from the first without a pause; a flood of requests for one that is not loaded; the
worker loses its power while it loads. Ends with 1 where a client that waits got no answer, an answer was cut off, or a
flood was more than one load.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import requests
from rich.console import Console
from rich.table import Table

from tests.lab import chat, cluster, three_models
from tests.lab.node import power_off, power_on, wait_until_up
from tests.lab.settings import LabNode

HEAD, WORKER = LabNode(0), LabNode(1)
NAMES, FAR = ("first", "second", "third"), "far"
#: Rounds of all three in turn, and requests of the flood.
ROUNDS, FLOOD = 2, 60
#: Seconds for a load on two cores, and until the model before it gives way; and one after which nobody is busy
#: (files/ondemand/tenants.py).
LOAD_S, REST_S = 600, 12
FLOOR_GIB = 1.0


@dataclass(frozen=True)
class Got:
    """One answer. Seconds to the first byte (how far the load is) and to the first token; how it ended.

    `again_s`: seconds after which it was told to come back. `told`: how often it was before, in which time counts too.
    """

    model: str
    status: int
    first_s: float
    token_s: float
    took_s: float
    ended: str
    again_s: float = 0.0
    told: int = 0


def ask(at: dict[str, str], model: str, *, stream: bool = True, tokens: int = 16) -> Got:
    """A chat. `ended`: `well`, what it was told instead, or `cut off`."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": tokens, "stream": stream}
    begun, first, token, text = time.monotonic(), 0.0, 0.0, b""
    headers = {"Authorization": f"Bearer {at['OPENAI_API_KEY']}"}
    try:
        with requests.post(
            f"{at['OPENAI_BASE_URL']}/chat/completions", headers=headers, json=body, stream=True, timeout=LOAD_S
        ) as response:
            for part in response.iter_content(None):
                first = first or time.monotonic() - begun
                text += part
                if b'"delta"' in text or b'"message"' in text:
                    token = token or time.monotonic() - begun
            status, again_s = response.status_code, float(response.headers.get("Retry-After", 0))
    except requests.RequestException as error:
        return Got(model, 0, first, token, time.monotonic() - begun, f"cut off: {type(error).__name__}")
    whole = text.rstrip().endswith(b"data: [DONE]") if stream else b'"finish_reason"' in text
    told = re.search(rb'"message": ?"([^"]*)', text) if b'"error"' in text else None
    ended = told[1].decode() if told else "well" if whole else "cut off"
    return Got(model, status, first, token, time.monotonic() - begun, ended, again_s)


def ask_again(at: dict[str, str], model: str) -> Got:
    """As a client does that comes back when it was told to."""
    begun, told = time.monotonic(), 0
    while (got := ask(at, model)).status == 503 and time.monotonic() - begun < LOAD_S:
        told += 1
        time.sleep(max(got.again_s, 1.0))
    before = time.monotonic() - begun - got.took_s
    whole = replace(got, first_s=got.first_s + before, token_s=got.token_s + before, took_s=got.took_s + before)
    return replace(whole, told=told)


def loads(node: LabNode, words: str, since: str) -> int:
    """How often the program of a node has said so since then."""
    log = cluster.on(node, f"journalctl -u tandem-ondemand --since '{since}' --output cat --no-pager", check=False)
    return len(re.findall(words, log))


def clock(node: LabNode) -> str:
    """A node's time, as its journal takes it."""
    return cluster.on(node, "date '+%F %T'").strip()


def declared() -> dict[str, Any]:
    """Two of the three fit beside each other."""
    total_kib = int(re.findall(r"MemTotal: *(\d+)", cluster.on(HEAD, "cat /proc/meminfo"))[0])
    each_gib = round((total_kib / 1048576 - FLOOR_GIB) / 2.5, 1)
    one = {"recipe": "lab-tiny-llama", "topology": "solo", "on_demand": True, "memory_gib": each_gib}
    models = {name: {**one, "nodes": HEAD.name, "served_name": name} for name in NAMES}
    return {**models, FAR: {**one, "nodes": WORKER.name, "served_name": FAR, "memory_gib": 3}}


def in_turn(at: dict[str, str]) -> list[Got]:
    """All three, one after the other, while the first one is streamed from without a pause."""
    begun, stop, beside = clock(HEAD), threading.Event(), list[Got]()

    def go_on() -> None:
        while not stop.is_set():
            beside.append(ask(at, NAMES[0], tokens=256))

    ask(at, NAMES[0])
    thread = threading.Thread(target=go_on)
    thread.start()
    got = [ask_again(at, name) for _ in range(ROUNDS) for name in NAMES]
    stop.set()
    thread.join()
    _table("in turn", got)
    print(f"beside them {len(beside)} long streams of {NAMES[0]}: {sum(each.ended == 'well' for each in beside)} well")
    print(f"unloaded {loads(HEAD, 'is unloaded', begun)} times, {NAMES[0]} {loads(HEAD, 'first is unloaded', begun)}")
    return [*got, *beside]


def flood(at: dict[str, str]) -> tuple[list[Got], int]:
    """Half of them stream. The model asked for is the one that gave way last."""
    time.sleep(REST_S)
    begun = clock(HEAD)
    with ThreadPoolExecutor(FLOOD) as pool:
        got = list(pool.map(lambda number: ask(at, NAMES[1], stream=bool(number % 2)), range(FLOOD)))
    found = loads(HEAD, f"{NAMES[1]} is loaded: it is asked for", begun)
    waits = [each for each in got if each.status == 503]
    print(f"flood: {FLOOD} requests, {found} load, {len(waits)} told to come back, {len(got) - len(waits)} answered")
    return got, found


def dies(at: dict[str, str]) -> tuple[list[Got], list[Got]]:
    """The worker, while it loads. What had to be answered, which the head has and it has later, and what was told."""
    begun = clock(WORKER)
    with ThreadPoolExecutor(2) as pool:
        waits = pool.submit(ask, at, FAR)
        deadline = time.monotonic() + 60
        while not loads(WORKER, "far is loaded: it is asked for", begun) and time.monotonic() < deadline:
            time.sleep(0.5)
        power_off(WORKER)
        beside = [ask(at, NAMES[0]) for _ in range(3)]
        ended = waits.result()
    print(f"the worker died while it loaded: its stream ended after {ended.took_s:.1f} s with: {ended.ended}")
    told = ask(at, FAR, stream=False)
    print(f"one more is told {told.status} after {told.took_s:.1f} s: {told.ended}")
    power_on(WORKER)
    wait_until_up(WORKER)
    again = ask_again(at, FAR)
    print(f"when it is back: {again.ended}, first token after {again.token_s:.1f} s")
    return [*beside, again], [ended, told]


def wrong(answered: list[Got], told: list[Got]) -> list[Got]:
    """What is not as it shall be. `told`: of these one may have been told why there is no answer."""
    return [*(each for each in answered if each.ended != "well"), *(each for each in told if _is_cut_off(each))]


def _is_cut_off(got: Got) -> bool:
    return got.ended.startswith("cut off")


def _table(title: str, rows: list[Got]) -> None:
    table = Table("model", "status", "told", "first byte s", "first token s", "took s", "ended", title=title, box=None)
    for each in rows:
        times = (f"{seconds:.2f}" for seconds in (each.first_s, each.token_s, each.took_s))
        table.add_row(each.model, str(each.status), str(each.told), *times, each.ended)
    Console(width=140).print(table)


def main() -> int:
    """All of it; 1 where something is not as it shall be."""
    models = json.dumps(declared())
    done = cluster.deploy(models=models, memory_floor_gib=FLOOR_GIB, prove="off", **three_models.BESIDE)
    if done.code != 0:
        print(done.text, file=sys.stderr)
        return 1
    at = chat.endpoint()
    turns, (crowd, found), (rest, told) = in_turn(at), flood(at), dies(at)
    kept = {"in turn": turns, "flood": crowd, "a node dies": [*rest, *told]}
    words = {name: [asdict(each) for each in rows] for name, rows in kept.items()}
    (cluster.ROOT / "bench-on-demand.json").write_text(json.dumps(words, indent=1) + "\n")
    refused = [each for each in crowd if each.status == 503]
    found_wrong = wrong([*turns, *rest, *(each for each in crowd if each not in refused)], [*refused, *told])
    _table("not as it shall be", found_wrong)
    return int(bool(found_wrong) or found != 1)


if __name__ == "__main__":
    sys.exit(main())
