"""The page of two models in a real browser: a cluster on both nodes of the lab, and a small one beside a rank of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from operations.paths import ENGINE
from tests.e2e.seen import Seen
from tests.e2e.settled import wait_for
from tests.e2e.test_3_monitoring import metrics
from tests.e2e.watched import Watched, bring_programs, take_programs_away, watching
from tests.lab import chat
from tests.lab.cluster import HEAD, WORKER, on
from tests.node.browser import CHROMIUM, Door, values

pytestmark = [
    *(pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("lab")),
    pytest.mark.skipif(not CHROMIUM, reason="no chromium is here"),
]

TINY = {"recipe": "lab-tiny-llama", "memory_gib": 3}
MODELS: dict[str, dict[str, Any]] = {
    "chat": {**TINY, "topology": "cluster", "executor": "mp", "served_name": "chat"},
    "small": {**TINY, "topology": "solo", "nodes": WORKER.name, "served_name": "small"},
}
START_S = 300.0


@pytest.fixture(scope="module")
def seen(lab: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    bring_programs(tmp_path_factory.mktemp("packages"))
    with watching(tmp_path_factory.mktemp("secret")) as watched:
        # The knobs of a lone model have no place beside a set of them.
        knobs = {name: value for name, value in watched.knobs.items() if name != "topology"}
        told = json.dumps(MODELS, separators=(",", ":"))
        watched = Watched({**knobs, "models": told, "canary_deadline": 10.0}, watched.webhook, watched.mail)
        done = watched.deploy()
        assert done.code == 0, done.text
        at = chat.endpoint()
        door = Door(at["OPENAI_BASE_URL"].removesuffix("/v1"), at["OPENAI_API_KEY"])
        yield Seen("models", watched, at, door, tmp_path_factory.mktemp("browser"))
        door.end()
    take_programs_away()


def made(seen: Seen) -> dict[str, float]:
    """Tokens by model, by the engines' own counters."""
    told = [each for node in (HEAD, WORKER) for each in metrics(node).items()]
    counted = {name: value for name, value in told if name.startswith("vllm:generation_tokens_total")}
    return {model: sum(value for name, value in counted.items() if f'"{model}"' in name) for model in MODELS}


def charts(seen: Seen, panel: str) -> set[str]:
    """Names of what is drawn of the last hour."""
    return {each["name"] for each in seen.course(panel, "hour")["series"]}


def test_well_it_shows_both_with_what_each_has_made(seen: Seen) -> None:
    wait_for(lambda: set(seen.words().values()) == {"ok"}, START_S)
    # A Prometheus that has just begun has nothing to draw: a rate needs two looks.
    wait_for(lambda: charts(seen, "tokens_out") == {*MODELS}, START_S)
    before = made(seen)
    for model in MODELS:
        answer: Any = chat.ask(seen.at["OPENAI_BASE_URL"], seen.at["OPENAI_API_KEY"], model, "Hello", 24)
        assert answer["model"] == model
    after = made(seen)
    # The canary asks too.
    assert all(after[model] - before[model] >= 24 for model in MODELS), (before, after)
    dom, text = seen.shown("well")
    for model in MODELS:
        assert f"{model} ● serves serves since" in text, text
    assert "✕" not in text and text.count("● ok") >= 2
    assert [name for name, _ in values(dom)].count("Requests that run") == len(MODELS)
    status = " ".join(seen.watched.verb("status").stdout.split())
    for model, nodes in (("chat", 2), ("small", 1)):
        assert status.count(f"{ENGINE}-{model} active (running)") == nodes, status


def test_while_one_starts_the_other_serves(seen: Seen) -> None:
    on(WORKER, "docker kill tandem-engine-small")
    wait_for(lambda: {each["name"]: each["state"] for each in seen.state()["models"]}["small"] == "starting", 60)
    _, text = seen.shown("starting")
    assert "chat ● serves serves since" in text and "small ◐ starting" in text, text
    answer: Any = chat.ask(seen.at["OPENAI_BASE_URL"], seen.at["OPENAI_API_KEY"], "chat", "Hello", 4)
    assert answer["model"] == "chat"
    wait_for(lambda: {each["state"] for each in seen.state()["models"]} == {"serves"}, START_S)


def test_every_panel_tells_the_models_apart(seen: Seen) -> None:
    assert charts(seen, "requests_running") == {*MODELS}
    assert charts(seen, "kv_fill") == {f"{HEAD.name} chat", f"{WORKER.name} small"}
