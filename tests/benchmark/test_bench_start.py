"""The bench of starts: weights of any size, reads past the page cache, and a start of a program that talks as vLLM."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench import spark_start, start, start_weights

#: A double: it logs what vLLM does on a GPU, then answers as one that has loaded.
ENGINE = """
import http.server, sys, time
at = dict(zip(sys.argv[2::2], sys.argv[3::2]))
for line in ("Starting to load model x", "Loading weights took 0.20 seconds",
             "Model loading took 0.1 GiB memory and 0.2 seconds", "init engine (profile, create kv cache, warmup"):
    print(line)
    time.sleep(0.2)
if at.get("--load-format") == "fastsafetensors":
    raise SystemExit("ImportError: no such loader")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(at["--port"])), Handler).serve_forever()
"""


def test_random_weights_are_a_model_that_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_weights, "SHARD", 4 << 20)
    monkeypatch.setattr(start_weights, "BLOCK", 1 << 20)
    folder = start_weights.make(tmp_path, 0.01)
    shards = sorted(folder.glob("*.safetensors"))
    assert len(shards) > 1 and start_weights.make(tmp_path, 0.01) == folder
    where = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    shape = start_weights.shape_of(0.01)
    assert set(where) == {name for name, _ in shape.tensors()} and set(where.values()) == {file.name for file in shards}
    # numpy has no bfloat16: the header alone is read here.
    for file in shards:
        raw = file.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        ends = [each["data_offsets"][1] for each in json.loads(raw[8 : 8 + length]).values()]
        assert len(raw) == 8 + length + max(ends)
        # Of either sign, and none of them NaN or infinite.
        assert set(raw[8 + length + 1 :: 2]) == {0x3C, 0xBC}


@pytest.mark.parametrize("gib", [0.01, 0.5, 8, 40])
def test_a_shape_has_about_the_size_that_was_asked_for(gib: float) -> None:
    has = sum(start_weights.size(shape) for _, shape in start_weights.shape_of(gib).tensors()) / start_weights.GIB
    assert has == pytest.approx(gib, rel=0.35)


def test_files_are_read_past_the_page_cache(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * (start.PIECE + 5000))
    assert start.read_direct([tmp_path / "a"]) > 0


def test_a_start_is_measured_phase_by_phase_and_a_failure_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "engine.py"
    program.write_text(ENGINE)
    monkeypatch.setattr(start, "RESULT", tmp_path / "result.json")
    for name, value in {
        "ENGINE": f"{sys.executable} -u {program}",
        "GIB": "0.01",
        "PLACE": str(tmp_path / "place"),
        "LOADERS": "engine fastsafetensors",
        "FLAGS": "",
    }.items():
        monkeypatch.setenv(name, value)
    assert start.main() == 1
    told = json.loads((tmp_path / "result.json").read_text())
    good, bad = told["starts"][:2], told["starts"][2:]
    assert [each["cold"] for each in good] == [True, False] and not any(each["problem"] for each in good)
    assert list(good[0]["phases"]) == ["imports", "weights", "warm-up", "server"]
    assert good[0]["gib_s"] > 0 and told["direct_gib_s"][0] > 0
    assert all(each["problem"] == "ImportError: no such loader" for each in bad)
    assert "start / O_DIRECT" in capsys.readouterr().out
    assert "Loading weights took" in (tmp_path / "place/1-engine-cold.log").read_text()


def test_a_disk_without_o_direct_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    Console(width=200).print(start.table([start.Started("engine", True, 9.0, 1.0, {"weights": 3.0})], 0.0))
    said = capsys.readouterr().out
    assert "no O_DIRECT here" in said and "0.33" in said


@pytest.mark.parametrize(
    ("name", "value", "problem"), [("ENGINE", "", "say what is"), ("LOADERS", "fast", "fast is none")]
)
def test_what_is_missing_or_unknown_is_said(
    name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGINE", "vllm serve")
    monkeypatch.setenv(name, value)
    assert start.main() == 2 and problem in capsys.readouterr().err


def test_auto_starts_the_engine_by_the_program_that_chooses(tmp_path: Path) -> None:
    argv = start._chooser(tmp_path)
    assert argv == [sys.executable, str(tmp_path / "loader.py")]
    chosen = json.loads((tmp_path / "loader.json").read_text())
    assert [each["name"] for each in chosen] == ["instanttensor", "fastsafetensors"] and chosen[0]["at_least"]


def test_what_a_spark_would_take_is_a_range_and_the_documentation_s() -> None:
    text = (Path(__file__).parents[2] / "docs/starts.md").read_text()
    assert "\n".join(spark_start.lines()) in text and "**Computed, never measured.**" in text
    ways = [(cluster, mapped) for cluster in (False, True) for mapped in (False, True)]
    for cluster, mapped in ways:
        first, later = (spark_start.start(70, cluster=cluster, mapped=mapped, first=each) for each in (True, False))
        assert 0 < later.low < later.high < first.high and later.low < first.low < first.high
    slow, fast = (spark_start.start(70, cluster=False, mapped=each, first=False) for each in (True, False))
    assert slow.low > fast.low and slow.high > fast.high
