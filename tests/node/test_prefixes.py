"""The doctor on prefix caches: what an engine has counted, and when that is worth a remark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from operations.node.doctor import prefixes
from operations.node.unit import services
from operations.plan.doctor import diagnose
from operations.plan.doctor import prefixes as judged
from operations.plan.doctor.symptom import REMARK, Seen
from tests.support.serving import Quiet, serving


class EngineDouble(Quiet):
    """An engine's /metrics, with an engine's words and none of its work."""

    text: ClassVar[str] = ""

    def do_GET(self) -> None:
        self.reply(self.text.encode())


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(services, "engines", lambda: ["tandem-engine", "tandem-engine-other"])
    with serving(EngineDouble) as here:
        states = {"tandem-engine": {"url": here}, "tandem-engine-other": {"url": ""}}
        monkeypatch.setattr(services, "main", lambda _: {"units": states, "strays": []})
        yield here


VLLM = """\
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{{engine="0",model_name="m"}} {asked}
vllm:prefix_cache_queries_created{{engine="0",model_name="m"}} 1.76e+09
vllm:prefix_cache_hits_total{{engine="0",model_name="m"}} {found}
"""


@pytest.mark.parametrize(("asked", "found", "told"), [("30412.0", "0.0", True), ("3.1e+06", "0.0", True)])
def test_one_that_never_hits_is_a_remark(url: str, asked: str, found: str, told: bool) -> None:
    EngineDouble.text = VLLM.format(asked=asked, found=found)
    (seen,) = prefixes.main(judged.COUNTERS)
    assert seen == {"url": url, "asked": int(float(asked)), "found": 0}
    (symptom,) = judged.judge(Seen(looks={"spark-1": {"prefixes": [seen]}}))
    assert symptom.severity == REMARK and f"none of {int(float(asked)):,} tokens" in symptom.seen
    assert symptom in diagnose(Seen(looks={"spark-1": {"prefixes": [seen]}}), {"spark-1": {}})


@pytest.mark.parametrize(("asked", "found"), [("30412.0", "16.0"), ("900.0", "0.0"), ("0.0", "0.0")])
def test_one_that_hits_or_was_hardly_asked_is_not(url: str, asked: str, found: str) -> None:
    EngineDouble.text = VLLM.format(asked=asked, found=found)
    seen = prefixes.main(judged.COUNTERS)
    assert not list(judged.judge(Seen(looks={"spark-1": {"prefixes": seen}})))


def test_an_engine_that_counts_none_says_nothing(url: str) -> None:
    EngineDouble.text = "vllm:num_requests_running 1\n"
    assert prefixes.main(judged.COUNTERS) == []
