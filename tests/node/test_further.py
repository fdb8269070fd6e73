"""What a recipe needs beside its model, on a node: what makes it whole, how it is asked, and copies side by side."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from operations.node.copy import share
from operations.node.copy.source import Source
from operations.node.engine import probe
from operations.node.look import status
from operations.node.model import proof
from operations.node.unit import brief
from operations.plan.engines import ENGINES
from tests.lab import further
from tests.node.shipped import part
from tests.node.test_proof import answering

node, rails, engine = part("canary", "node"), part("canary", "rails"), part("canary", "engine")
QUESTION: Any = asdict(ENGINES["vllm"].QUESTIONS["embedding"])
VECTOR = {"data": [{"embedding": [0.25, -1.5]}], "usage": {"prompt_tokens": 2}}
MODELS = {"data": [{"id": "m"}]}


@pytest.mark.parametrize(
    ("kind", "taken", "problem"),
    [
        ("adapter", "", ""),
        ("adapter", "adapter_config.json", "adapter_config.json is missing"),
        ("adapter", "adapter_model.safetensors", "has no weights"),
        ("model", "", "/config.json is missing"),
        ("files", "adapter_model.safetensors", ""),
    ],
)
def test_what_makes_an_adapter_and_a_tokenizer_whole(tmp_path: Path, kind: str, taken: str, problem: str) -> None:
    further._write_adapter(tmp_path)
    if taken:
        (tmp_path / taken).unlink()
    said = [each.text for each in proof.structure_problems(tmp_path, kind)]
    assert bool(said) == bool(problem) and problem in "".join(said)


def test_a_truncated_adapter_is_none(tmp_path: Path) -> None:
    further._write_adapter(tmp_path)
    file = tmp_path / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    assert "its header says" in proof.structure_problems(tmp_path, "adapter")[0].text


def probed(answers: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(brief, "main", lambda _unit: {"state": {}, "log": []})

    def ask(url: str, body: Any | None, _key: str, _deadline_s: float) -> Any:
        return dict(answers[url.removeprefix("http://h")])

    monkeypatch.setattr(probe, "ask", ask)
    return probe.main("tandem-engine", "http://h", "m", question=QUESTION)


def test_an_embedding_engine_is_asked_for_a_vector_and_not_for_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    assert probed({"/v1/models": MODELS, "/v1/embeddings": VECTOR}, monkeypatch)["ok"]
    nothing = probed({"/v1/models": MODELS, "/v1/embeddings": {"data": []}}, monkeypatch)
    assert not nothing["ok"] and nothing["listens"] and nothing["problem"] == 'answered {"data": []}'


def test_status_asks_what_the_canary_asks(tmp_path: Path) -> None:
    file = tmp_path / "canary.json"
    assert status.asked("tandem-engine", file) is None
    for wanted, question in (({"question": QUESTION}, QUESTION), ({}, None)):
        file.write_text(json.dumps({"engines": {"tandem-engine": wanted}}))
        assert status.asked("tandem-engine", file) == question


def test_of_several_engines_each_is_asked_its_own(tmp_path: Path) -> None:
    file = tmp_path / "canary.json"
    file.write_text(json.dumps({"engines": {"tandem-engine-a": {}, "tandem-engine-b": {"question": QUESTION}}}))
    assert status.asked("tandem-engine-b", file) == QUESTION
    # The proxy is asked as the first one.
    assert status.asked("tandem-engine-a", file) is None and status.asked("tandem-proxy", file) is None


@pytest.mark.parametrize(("told", "problem"), [(VECTOR, ""), ({"data": []}, "an answer without a token")])
def test_the_canary_asks_an_embedding_engine_for_a_vector(told: Any, problem: str) -> None:
    with answering({"/v1/embeddings": told}) as (url, _):
        watch = SimpleNamespace(wanted={"question": QUESTION}, model="m", url=url, silence_s=5)
        assert engine.Engine.ask(watch) == problem


def test_a_worker_that_copies_another_model_has_nothing_for_this_one(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--org--draft/snapshots/abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    share.serve(["127.0.0.1"], 26988, share.Shared(["127.0.0.1"], snapshot, coming=lambda: ["model.safetensors"]))
    same = Source(["127.0.0.1"], 26988, of=share.of(snapshot))
    other = Source(["127.0.0.1"], 26988, of="models--org--model abc")
    for source in (same, other):
        source.look()
    assert list(same.have) == ["config.json"] and same.coming == {"model.safetensors"}
    assert other.answers and not other.have and not other.coming


def test_one_request_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for count, said in ((0, "has 0 requests"), (1, "has 1 request"), (2, "has 2 requests")):
        monkeypatch.setattr("operations.node.look.status.drained.under_way", lambda _pulse, count=count: count)
        assert status._row("tandem-litellm-a", {"pulse": "/nowhere"})["health"] == said
