"""Several models on four nodes of the lab. What is done to one costs the others nothing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests

from tests.lab import chat, cluster
from tests.lab.cluster import Deploy, deploy, on
from tests.lab.settings import LabNode
from tests.lab.three_models import ALL, BESIDE, CHAT, CODER, SMALL

pytestmark = [pytest.mark.lab, pytest.mark.long]

FOUR = [LabNode(index) for index in range(4)]


def deployed(models: dict[str, Any], **more: Any) -> Deploy:
    done = deploy(models=json.dumps(models), **BESIDE, **more)
    assert done.code == 0, done.text
    return done


@pytest.fixture(scope="module")
def at(lab: None) -> Iterator[dict[str, str]]:
    """All three, on a switch; afterwards the lab is as it was."""
    cluster.lab("up", NODES="4", WIRING="")
    try:
        deployed(ALL)
        yield chat.endpoint()
    finally:
        cluster.lab("up")


def ask(at: dict[str, str], model: str, tokens: int = 4) -> str:
    """The text of an answer; raises for none."""
    answer: Any = chat.ask(at["OPENAI_BASE_URL"], at["OPENAI_API_KEY"], model, "Hello", tokens)
    assert answer["model"] == model and answer["usage"]["completion_tokens"] == tokens
    return str(answer["choices"][0]["message"]["content"])


def ids(name: str) -> list[str]:
    """The containers of a model's engines, on all nodes."""
    asked = f"docker ps --no-trunc --quiet --filter name=^tandem-engine-{name}$"
    return [on(node, asked).strip() for node in FOUR]


class Clients:
    """Eight who stream from one model, one request after the other, without retries."""

    def __init__(self, at: dict[str, str], model: str) -> None:
        self.at, self.model = at, model
        self.right = 0
        self.wrong: list[str] = []
        self._stop = threading.Event()
        self._expected = self._stream()
        self._threads = [threading.Thread(target=self._go_on) for _ in range(8)]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        for each in self._threads:
            each.start()
        try:
            yield
        finally:
            self._stop.set()
            for each in self._threads:
                each.join()

    def _go_on(self) -> None:
        while not self._stop.is_set():
            try:
                said = self._stream()
            except (requests.RequestException, ValueError, KeyError) as error:
                self.wrong.append(str(error))
                time.sleep(0.5)
                continue
            if said == self._expected:
                self.right += 1
            else:
                self.wrong.append(said)

    def _stream(self) -> str:
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": "Count"}],
            "max_tokens": 24,
            "stream": True,
        }
        headers = {"Authorization": f"Bearer {self.at['OPENAI_API_KEY']}"}
        url, parts, done = f"{self.at['OPENAI_BASE_URL']}/chat/completions", [], False
        with requests.post(url, headers=headers, json=body, stream=True, timeout=120) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                if line == b"data: [DONE]":
                    done = True
                elif line.startswith(b"data: "):
                    said = json.loads(line[6:])
                    parts += [each["delta"].get("content") or "" for each in said["choices"]]
        if not done:
            raise ValueError("the stream ended in its midst")
        return "".join(parts)


def test_all_answer_through_each_proxy_and_a_second_deploy_changes_nothing(at: dict[str, str]) -> None:
    listed = requests.get(
        f"{at['OPENAI_BASE_URL']}/models", headers={"Authorization": f"Bearer {at['OPENAI_API_KEY']}"}, timeout=30
    ).json()
    assert sorted(each["id"] for each in listed["data"]) == ["chat", "coder", "small"]
    for node in FOUR:
        there = {**at, "OPENAI_BASE_URL": f"http://{node.address}:8000/v1"}
        for model in ("chat", "coder", "small"):
            assert ask(there, model)
    begun = time.monotonic()
    again = deployed(ALL)
    took = time.monotonic() - begun
    assert again.changes == 0, again.text
    print(f"a second deploy of three models on four nodes: {took:.1f} s")


def test_ports_are_apart_and_each_rank_lies_where_it_shall(at: dict[str, str]) -> None:
    lies = {node.name: [name for name in cluster.containers(node) if "engine" in name] for node in FOUR}
    assert lies == {
        "spark-1": ["tandem-engine-chat", "tandem-engine-small"],
        "spark-2": ["tandem-engine-chat"],
        "spark-3": ["tandem-engine-coder"],
        "spark-4": ["tandem-engine-coder"],
    }
    assert on(FOUR[0], "cat /etc/tandem/engine-small/slot").strip() == "2"


def test_what_is_done_to_one_model_costs_another_nothing(at: dict[str, str]) -> None:
    """Under eight who stream from `coder`: flags of another change, its topology, its engine dies, it is taken away and
    comes back.
    """
    before, clients = ids("coder"), Clients(at, "coder")
    with clients.at_work():
        deployed({**ALL, "small": {**SMALL, "memory_gib": 3.5}})
        deployed({**ALL, "chat": {**CHAT, "topology": "solo", "nodes": "spark-2"}})
        on(FOUR[0], "docker kill tandem-engine-small")
        deployed({"chat": CHAT, "coder": CODER})
        deployed(ALL)
    assert ids("coder") == before
    assert clients.wrong == [] and clients.right > 20, (clients.right, clients.wrong[:3])
    print(f"{clients.right} requests of another model while all of that was done: none lost")
    for model in ("chat", "coder", "small"):
        assert ask(at, model)
    assert deployed(ALL).changes == 0


def test_a_set_that_does_not_fit_is_refused_with_the_table_and_all_serve_on(at: dict[str, str]) -> None:
    refused = deploy(models=json.dumps({**ALL, "small": {**SMALL, "memory_gib": 40}}), **BESIDE)
    assert refused.refused and "Traceback" not in refused.text
    said = " ".join(refused.text.split())
    assert "its models take 43.0 GiB together" in said and "spark-1 chat 3.0 GiB" in said and "spark-1 sum 43.0" in said
    assert ask(at, "small") and ask(at, "chat")


def test_those_of_one_node_load_one_after_the_other(at: dict[str, str]) -> None:
    """Both are started at once, as a boot does it."""
    on(FOUR[0], "systemctl restart --no-block tandem-engine-chat tandem-engine-small")
    begun, waited = time.monotonic(), ""
    while time.monotonic() - begun < 300:
        logs = "journalctl --output=cat --since=-300s --unit tandem-engine-chat --unit tandem-engine-small"
        waited = waited or on(FOUR[0], f"{logs} | grep -F 'loads its model' || true", check=False).strip()
        try:
            if ask(at, "chat", 1) and ask(at, "small", 1) and waited:
                break
        except requests.RequestException:
            time.sleep(1)
    assert "loads its model, and each would take the other's memory for its own" in waited


def test_when_memory_runs_out_the_last_of_the_owner_s_order_goes_and_the_first_serves_on(at: dict[str, str]) -> None:
    chat_before, small_before = ids("chat"), ids("small")
    free = int(on(FOUR[0], "sed -n 's/^MemAvailable: *\\([0-9]*\\).*/\\1/p' /proc/meminfo")) // 1024
    # The floor is put above what is there: the guard sees what it would see of a hog, and no other test's node suffers.
    on(FOUR[0], f'sed -i \'s/"floor_mib": [0-9]*/"floor_mib": {free + 200}/\' /etc/tandem/guard/guard.json')
    try:
        on(FOUR[0], "systemctl restart tandem-guard")
        begun = time.monotonic()
        while ids("small") == small_before and time.monotonic() - begun < 60:
            time.sleep(0.2)
    finally:
        on(FOUR[0], 'sed -i \'s/"floor_mib": [0-9]*/"floor_mib": 1024/\' /etc/tandem/guard/guard.json')
        on(FOUR[0], "systemctl restart tandem-guard")
    told = on(FOUR[0], "journalctl --output=cat --since=-120s --unit tandem-guard")
    assert "the engine-small's container is killed" in told
    assert ids("chat") == chat_before and ask(at, "chat")
    begun = time.monotonic()
    while time.monotonic() - begun < 240:
        try:
            assert ask(at, "small")
            break
        except requests.RequestException:
            time.sleep(2)
    assert ask(at, "small")


def test_a_model_that_is_not_there_any_more_leaves_nothing_behind_but_its_files_in_the_store(
    at: dict[str, str],
) -> None:
    deployed({"chat": CHAT, "coder": CODER})
    left = on(FOUR[0], "ls /etc/systemd/system/tandem-engine-small.service /run/tandem/engine-small.cid", check=False)
    assert left == "" and ids("small") == ["", "", "", ""]
    assert on(FOUR[0], f"ls {cluster.STORE}/snapshots").strip()
    with pytest.raises(requests.HTTPError):
        ask(at, "small")
