"""The page of a lab in a real browser. `PAGE_PICTURES=1` writes the manual's pictures: docs/assets/lab-*.png."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.e2e.test_3_monitoring import metrics, own_metrics
from tests.e2e.watched import Watched
from tests.lab import cluster
from tests.lab.cluster import HEAD, WORKER
from tests.lab.settings import LabNode
from tests.node.browser import Door, browse, text_of

#: Of pictures: a desk's window and a phone's, and how many colours are kept.
DESK, PHONE, COLOURS = (1000, 1500), (390, 1900), 48
#: Those that the manual shows (docs/page.md).
SHOWN = (
    *("replicas-well", "cluster-well", "solo-well", "models-well", "replicas-well-phone"),
    *("cluster-starting", "cluster-node-dead", "cluster-without-prometheus"),
)


@dataclass
class Seen:
    """A topology that is deployed, and the browser's door to its page at the head."""

    topology: str
    watched: Watched
    at: dict[str, str]
    door: Door
    folder: Path

    @property
    def serving(self) -> list[LabNode]:
        return [HEAD] if self.topology == "solo" else [HEAD, WORKER]

    @property
    def answering(self) -> list[LabNode]:
        """Nodes whose engine has counters."""
        return [HEAD, WORKER] if self.topology == "replicas" else [HEAD]

    def state(self) -> Any:
        return requests.get(f"{self.door.url}/tandem/state.json", timeout=20).json()

    def course(self, panel: str, span: str) -> Any:
        asked = requests.get(f"{self.door.url}/tandem/series.json?panel={panel}&span={span}", timeout=20)
        assert asked.status_code == 200, (panel, asked.text)
        return asked.json()

    def words(self) -> dict[str, str]:
        """node -> its word."""
        return {node["name"]: node["state"] for node in self.state()["nodes"]}

    def shown(self, name: str = "") -> tuple[str, str]:
        """The page as it is now: its DOM and what is read there. `name`: of its picture in the manual."""
        dom = browse(self.folder, "--dump-dom", f"{self.door.url}/tandem/")
        assert 'data-state="told"' in dom and "u-over" in dom, "the page was not filled"
        for kind, (width, height) in (("", DESK), ("-phone", PHONE)):
            picture = f"{self.topology}-{name}{kind}"
            if picture in SHOWN and os.environ.get("PAGE_PICTURES"):
                file = cluster.ROOT / f"docs/assets/lab-{picture}.png"
                at = f"{self.door.url}/frame/{width}/{height}/tandem/"
                browse(self.folder, f"--window-size={width},{height}", f"--screenshot={file}", at)
                made_small(file)
        return dom, text_of(dom)


def made_small(file: Path) -> None:
    from PIL import Image

    Image.open(file).convert("RGB").quantize(COLOURS).save(file, optimize=True)


def grown(seen: Seen, before: dict[str, float]) -> float:
    return sum(counters(seen).values()) - sum(before.values())


def counters(seen: Seen) -> dict[str, float]:
    """Tokens that the engines have made, by their own word."""
    asked = own_metrics if seen.topology == "solo" else metrics
    return {
        f"{node.name} {name}": value
        for node in seen.answering
        for name, value in asked(node).items()
        if name.startswith("vllm:generation_tokens_total")
    }
