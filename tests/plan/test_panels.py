"""The panels' PromQL by Prometheus' own promtool: each is parsed, and gives what the page makes of the same values."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from operations.plan.services.panels import panels, panels_of
from tests.node.shipped import part
from tests.plan.test_rules import promtool

__all__ = ["promtool"]
figures, reading = (part("page", name) for name in ("figures", "reading"))
#: Three models on each node, of two engines: series that are no engine's are there once.
MODELS = {"vllm": {"m": 1.0, "n": 3.0}, "sglang": {"s": 5.0}}
#: Series of two nodes: name, labels, and its value at 0 and what it grows by in a minute.
SERIES: list[tuple[str, dict[str, str], float, float]] = []


def _add(panel: Any, model: str, node: str, times: float) -> None:
    names = [panel["metric"], *([panel["over"]] if "over" in panel else [])]
    labels = {"model_name": model, "device": "enp1", "path": "/", "node": node, "proxy": "clients"}
    if panel["kind"] == "quantile":
        for edge, part_of in (("0.1", 3.0), ("0.5", 8.0), ("+Inf", 10.0)):
            SERIES.append((f"{names[0]}_bucket", {**labels, "le": edge}, 5.0, 60 * part_of * times))
    elif panel["kind"] == "gauge":
        SERIES.append((names[0], labels, 1024.0 * times, 0.0))
    else:
        SERIES.extend((name, labels, 7.0, 600.0 * times * (index + 1)) for index, name in enumerate(names))


for _node, _at in (("spark-1", 1.0), ("spark-2", 2.0)):
    for _engine, _models in MODELS.items():
        for _panel in panels(_engine):
            for _model, _times in _models.items() if ":" in _panel["metric"] else [("m", 1.0)]:
                _add(_panel, _model, _node, _at * _times)


def test_promtool_gives_what_the_page_gives(promtool: str, tmp_path: Path) -> None:
    series = {(name, tuple(sorted(labels.items()))): (at, grows) for name, labels, at, grows in SERIES}
    looks: Any = []
    for minute in (4, 5):
        looks.append({})
        for node in ("spark-1", "spark-2"):
            values: Any = {}
            for (name, labels), (at, grows) in series.items():
                if dict(labels)["node"] == node:
                    values.setdefault(name, []).append((dict(labels), at + minute * grows))
            looks[-1][node] = reading.Reading(minute * 60.0, values)
    expected = []
    for panel in panels_of(MODELS, "1m"):
        found = figures.figures(panel, looks[1], looks[0])
        models = 3 if ":" in panel["metric"] else 1
        assert len(found) == models * (2 if "node" in panel["by"] else 1), panel["id"]
        samples = []
        for name, value in found.items():
            words = dict(zip(panel["by"], name.split(" "), strict=True))
            written_labels = ", ".join(f'{label}="{word}"' for label, word in sorted(words.items()))
            samples.append({"labels": f"{{{written_labels}}}", "value": value})
        # Rounded as far as ten steps a minute and a scale allow.
        samples = [{**sample, "value": round(sample["value"], 10)} for sample in samples]
        # These gauges stay as they are: all that lies between two points is the same.
        for said in (panel["expr"], panel.get("long", panel["expr"])):
            expr = f"round({said}, 0.0000000001)"
            expected.append({"expr": expr, "eval_time": "5m", "exp_samples": samples})
    written = [
        {
            "series": name + "{" + ",".join(f'{label}="{word}"' for label, word in labels) + "}",
            "values": f"{at}+{grows / 6}x60",
        }
        for (name, labels), (at, grows) in series.items()
    ]
    (tmp_path / "none.yml").write_text("groups: []\n")
    tests = [{"interval": "10s", "input_series": written, "promql_expr_test": expected}]
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": ["none.yml"], "evaluation_interval": "10s", "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    differs = [block for block in said.split("expr: ")[1:] if not _close(block)]
    assert "parse" not in said and not differs, differs or said


def _close(block: str) -> bool:
    """Whether promtool's complaint is of the last digits of numbers alone."""
    exp, _, got = block.partition("got:")
    numbers = [[float(each) for each in re.findall(r"\} (\S+)", side)] for side in (exp, got)]
    if not numbers[0] or len(numbers[0]) != len(numbers[1]):
        return False
    pairs = zip(sorted(numbers[0]), sorted(numbers[1]), strict=True)
    return all(a == pytest.approx(b, rel=1e-6, abs=1e-9) for a, b in pairs)
