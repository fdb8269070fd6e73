"""What the real llama-benchy 0.3.5 has written (against doubles, three repeats), read as steps."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from bench.benchy import batches
from bench.figures import Figures, figures
from bench.records import Request
from bench.steps import Wanted
from tests.benchmark.test_figures import step

WRITTEN = Path(__file__).parent / "llama-benchy"


def read(users: int) -> tuple[dict[str, Any], list[list[Request]]]:
    """One of its files, and the requests of each repeat."""
    told = json.loads((WRITTEN / {1: "one-user.json", 4: "four-users.json"}[users]).read_text())
    return told, list(batches(told, Wanted("replicas", "proxy", users, 0, 64, 24), 3))


def of(requests: list[Request]) -> Figures:
    return figures(step(requests=len(requests)), requests, None)


@pytest.mark.parametrize("users", [1, 4])
def test_its_own_figures_come_out(users: int) -> None:
    told, repeats = read(users)
    [its] = told["benchmarks"]
    assert [len(requests) for requests in repeats] == [users] * 3
    requests = [request for some in repeats for request in some]
    assert [each.first_s for each in requests] == pytest.approx([value / 1000 for value in its["e2e_ttft"]["values"]])
    rates = [(24 - 1) / (each.done_s - (each.first_s or 0)) for each in requests]
    assert rates == pytest.approx(its["tg_req_throughput"]["values"])
    # It does not write when requests began; these were made on a machine so busy that four began over 50 ms.
    decode = fmean(of(some).decode_tok_s or 0 for some in repeats)
    assert decode == pytest.approx(its["tg_throughput"]["mean"], rel=0.1)
    # It takes a round trip off where one user reads alone; and nothing where several do.
    off = told["latency_ms"] / 1000 if users == 1 else 0.0
    prefill = [sum(r.prompt_tokens or 0 for r in some) / (max(r.first_s or 0 for r in some) - off) for some in repeats]
    assert fmean(prefill) == pytest.approx(its["pp_throughput"]["mean"], rel=0.02)


def test_every_request_has_its_tokens_and_its_place() -> None:
    _, repeats = read(4)
    requests = [request for some in repeats for request in some]
    assert {(request.answer_tokens, request.error) for request in requests} == {(24, "")}
    assert all(abs((request.prompt_tokens or 0) - 64) <= 1 for request in requests)
    assert [request.step for request in requests[::4]] == [f"replicas/proxy/4/{repeat}" for repeat in range(3)]


def test_what_it_leaves_out_has_failed() -> None:
    told, _ = read(4)
    [its] = told["benchmarks"]
    del its["requests_throughput_over_time"][2]
    its["requests_throughput_over_time"][1][3] = []
    for name in ("e2e_ttft", "est_ppt", "pp_req_throughput", "tg_req_throughput"):
        del its[name]["values"][7:]
    repeats = list(batches(told, Wanted("replicas", "proxy", 4, 0, 64, 24), 3))
    assert [[bool(request.error) for request in some] for some in repeats] == [
        [False] * 4,
        [False] * 3 + [True],
        [True] * 4,
    ]
