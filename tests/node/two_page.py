"""Doubles for a page of two models: the exporters of the two nodes of tests/plan/two_models.py, and the page."""

from __future__ import annotations

import time
from pathlib import Path

from tests.node.page_doubles import BASIS, Exporter, Page
from tests.plan.two_models import two_models

CHAT, CODER = "tandem-engine-chat", "tandem-engine-coder"
CHAT_UP, CODER_UP = (
    f'tandem_source_up{{source="engine-{name}",model="{model}"}}'
    for name, model in (("chat", "nemotron"), ("coder", "coder"))
)


def unit(name: str, model: str, since: float, state: str = "active") -> dict[str, str]:
    return {
        f'tandem_unit_active{{unit="{name}",model="{model}"}}': str(int(state == "active")),
        f'tandem_unit_failed{{unit="{name}",model="{model}"}}': str(int(state == "failed")),
        f'tandem_unit_active_since_seconds{{unit="{name}",model="{model}"}}': repr(since),
    }


def figures(model: str, running: int, fill: float) -> dict[str, str]:
    return {
        f'vllm:num_requests_running{{model_name="{model}"}}': str(running),
        f'vllm:kv_cache_usage_perc{{model_name="{model}"}}': str(fill),
    }


class TwoModels:
    """The cluster's first rank and `coder` on spark-1, its second rank on spark-2, and spark-1's page."""

    def __init__(self, folder: Path) -> None:
        since = time.time() - 200
        lone: dict[str, str | None] = {name.format(): None for name in BASIS if "engine" in name or "vllm" in name}
        # What the double adds by itself.
        lone |= {'vllm:generation_tokens_total{model_name="nemotron"}': "100"}
        self.exporters = {name: Exporter() for name in ("spark-1", "spark-2")}
        self.exporters["spark-1"].changes = {
            **lone,
            **unit(CHAT, "nemotron", since),
            **unit(CODER, "coder", since),
            CHAT_UP: "1",
            CODER_UP: "1",
            **figures("nemotron", 3, 0.25),
            **figures("coder", 1, 0.5),
        }
        self.exporters["spark-2"].changes = {**lone, **unit(CHAT, "nemotron", since)}
        urls = {name: f"http://127.0.0.1:{each.server_port}" for name, each in self.exporters.items()}
        self.page = Page(folder, urls, of=two_models(monitoring="metrics"))

    def end(self) -> None:
        self.page.end()
        for each in self.exporters.values():
            each.end()
