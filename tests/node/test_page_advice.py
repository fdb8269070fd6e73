"""The last bench and the advice on the page: the real program before doubles, with files as a bench hands them over."""

from __future__ import annotations

import io
import json
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operations.node.monitoring import handed as hands
from operations.wire.page import Taken
from tests.node.page_doubles import ANEW_S, Exporter, Page
from tests.node.shipped import part
from tests.node.two_page import TwoModels

RUN = "2026-11-24-101500-standard"
BETTER = {
    "better": "replicas, balanced",
    "by": 0.331,
    "here": 56.3,
    "there": 74.9,
    "first_here": 1.25,
    "first_there": 0.8,
    "kind": f"own run {RUN}",
    "source": f"cluster, mp: own run, {RUN}, 12 users; replicas, balanced: own run, {RUN}, 12 users",
}
NOTHING = {"better": "", "kind": "published [A]", "source": "cluster, ray: published, [A]"}
BENCH = {
    "folder": RUN,
    "began": 1_795_000_000,
    "profile": "standard",
    "recipe": "nemotron-3-super-nvfp4-auto",
    "prompt": 1024,
    "answer": 128,
    "rows": [
        {"setup": "cluster, mp", "users": 1, "decode": 23.8, "first": 0.46},
        {"setup": "replicas, balanced", "users": 12, "decode": 1074.9},
    ],
}


def handed(spec: str, model: str = "nemotron", better: Any = BETTER, **changes: Any) -> str:
    """Better is what serves with up to four users."""
    users = [NOTHING if count <= 4 else better for count in range(1, 65)]
    tables = [
        {"prompt": prompt, "answer": 128, "lengths_from": place, "users": users}
        for prompt, place in ((1024, "bench"), (8192, "grid"))
    ]
    mine = {"model": model, "spec": spec, "bench": BENCH, "advice": tables} | changes
    return json.dumps({"format": 1, "when": 1_795_000_100, "models": [mine]})


class One:
    """A cluster's page, of which five requests are asked."""

    def __init__(self, folder: Path) -> None:
        self.exporters = {name: Exporter() for name in ("spark-1", "spark-2")}
        self.exporters["spark-2"].changes = {
            f'vllm:num_requests_{each}{{model_name="nemotron"}}': None for each in ("running", "waiting")
        }
        urls = {name: f"http://127.0.0.1:{each.server_port}" for name, each in self.exporters.items()}
        self.page = Page(folder, urls, topology="cluster", executor="mp")
        self.spec = self.page.specs["nemotron"]

    def told(self, running: str | None = None, waiting: str = "0") -> tuple[Any, Any]:
        """The model, and what is said of the file, once so many ask."""
        if running is not None:
            self.exporters["spark-1"].changes |= {
                'vllm:num_requests_running{model_name="nemotron"}': running,
                'vllm:num_requests_waiting{model_name="nemotron"}': waiting,
            }
            time.sleep(ANEW_S)
        said = self.page.told("state.json")
        return said["models"][0], said["advice_note"]

    def end(self) -> None:
        self.page.end()
        for each in self.exporters.values():
            each.end()


@pytest.fixture
def one(tmp_path: Path) -> Iterator[One]:
    made = One(tmp_path)
    yield made
    made.end()


def test_the_load_of_now_is_what_the_advice_is_of(one: One) -> None:
    one.page.hand(handed(one.spec))
    model, note = one.told("9", "3")
    assert note == "" and model["bench"] == BENCH
    advice = model["advice"]
    assert advice["sentence"] == (
        "At 12 users as now replicas (balanced) would give 33 % more tokens a second: 75 in place of 56, and the first "
        f"token after 800 ms in place of 1.2 s (own run {RUN})."
    )
    assert (advice["users"], advice["better"], advice["source"]) == (12, "replicas, balanced", BETTER["source"])
    assert advice["lengths"] == "Computed for prompts of 1,024 tokens and answers of 128, the bench's."
    model, _ = one.told("1")
    assert (
        model["advice"]["sentence"] == "At 1 user as now no other topology gives more tokens a second (published [A])."
    )
    model, _ = one.told("90", "10")
    assert model["advice"]["sentence"].startswith("At 64 users (of 100: more are not computed) as now replicas ")


def test_without_a_bench_it_says_what_measures_and_what_computes(one: One) -> None:
    model, note = one.told()
    assert note == "" and "bench" not in model
    assert "`tandem bench` measures it, `tandem advise` computes" in model["advice"]["sentence"]
    one.page.hand(handed(one.spec, bench=None).replace('"lengths_from": "bench"', '"lengths_from": "plain"'))
    model, _ = one.told()
    assert "bench" not in model and model["advice"]["sentence"].startswith("At 5 users as now replicas ")
    assert model["advice"]["lengths"].endswith(" and answers of 128, taken as nothing else is known.")
    one.page.hand(handed(one.spec, advice=[]))
    model, _ = one.told()
    assert model["bench"] == BENCH and model["advice"]["sentence"].startswith("Nothing is advised: of other topologies")


def test_a_bench_of_another_plan_is_not_taken_for_this_one_s(one: One) -> None:
    one.page.hand(handed("another"))
    model, note = one.told()
    assert note == "" and "bench" not in model
    assert [*model["advice"]] == ["sentence"] and "is of another plan than this one" in model["advice"]["sentence"]
    # The page takes the next one as it comes.
    one.page.hand(handed(one.spec))
    assert one.told()[0]["advice"]["users"] == 5


BROKEN: dict[str, Any] = {
    "half": lambda good: good[: len(good) // 2],
    "empty": lambda good: "",
    "bytes": lambda good: "\udcff",
    "a list": lambda good: "[]",
    "null": lambda good: "null",
    "another format": lambda good: good.replace('"format": 1', '"format": 2'),
    "a word for a number": lambda good: good.replace("0.331", '"a third"'),
    "NaN": lambda good: good.replace("0.331", "NaN"),
    "endless": lambda good: good.replace("0.331", "1e999"),
    "true": lambda good: good.replace("0.331", "true"),
    "no users": lambda good: good.replace('"users": [', '"users": [], "x": ['),
    "no name": lambda good: good.replace('"nemotron"', "7"),
    "deep": lambda good: "[" * 100_000,
    "too much": lambda good: good + " " * (5 << 20),
}


def test_a_broken_file_is_left_out_with_a_note(one: One) -> None:
    for name, broken in BROKEN.items():
        one.page.hand(handed(one.spec))
        assert one.told()[0]["bench"] == BENCH
        one.page.advice.write_bytes(broken(handed(one.spec)).encode(errors="surrogateescape"))
        model, note = one.told()
        assert "advice.json can't be read, so nothing is said of benches: `tandem bench` writes" in note, name
        assert "bench" not in model and "`tandem bench` measures it" in model["advice"]["sentence"], name
    one.page.advice.unlink()
    one.page.advice.mkdir()
    assert "can't be read" in one.told()[1]


def test_where_counters_say_nothing_there_is_no_advice(one: One) -> None:
    one.page.hand(handed(one.spec))
    one.exporters["spark-1"].changes |= {
        f'vllm:num_requests_{each}{{model_name="nemotron"}}': None for each in ("running", "waiting")
    }
    time.sleep(ANEW_S)
    assert one.told()[0]["advice"]["sentence"] == "Nothing is advised: how many ask is not known here."


def test_lengths_are_not_called_the_bench_s_where_those_were_left_out() -> None:
    advice, nobody = part("page", "advice"), part("page", "last_hour").Hour()
    kept = json.loads(handed("s"))["models"][0]
    computed = "Computed for prompts of 1,024 tokens and answers of 128"
    for place, words in (
        ("bench", ", the bench's."),
        ("plain", ", taken as nothing else is known."),
        ("grid", ", the first that could be computed."),
        # Of an older Tandem's file that is not known.
        (None, "."),
    ):
        first = {**kept["advice"][0], "lengths_from": place}
        if place is None:
            del first["lengths_from"]
        (table,) = part("page", "handed")._part({**kept, "advice": [first]})["advice"]
        said = advice.bench_and_advice({**kept, "advice": [table]}, "s", {"requests_running": 3.0}, nobody)["advice"]
        assert said["lengths"] == computed + words


def test_of_several_models_each_has_its_own(tmp_path: Path) -> None:
    two = TwoModels(tmp_path)
    try:
        two.page.hand(handed(two.page.specs["coder"], "coder"))
        chat, coder = two.page.told("state.json")["models"]
        assert "bench" not in chat and chat["advice"]["sentence"].startswith("No bench of this model is known here")
        assert coder["bench"] == BENCH and coder["advice"]["users"] == 1
    finally:
        two.end()


def looks(asked: int) -> Any:
    """A memory of three looks: so many requests a second, of 5,000 tokens each, with 100 in the answer."""
    memory, reading = part("page", "last_hour"), part("page", "reading")
    first, panel = "vllm:time_to_first_token_seconds", {"by": ["model_name"]}
    kept = memory.Memory(
        [
            {"id": "ttft_p50", "kind": "quantile", "quantile": 0.5, "metric": first, **panel},
            {"id": "tokens_in", "kind": "rate", "metric": "vllm:prompt_tokens_total", **panel},
            {"id": "tokens_out", "kind": "rate", "metric": "vllm:generation_tokens_total", **panel},
            {"id": "requests_running", "kind": "gauge", "metric": "vllm:num_requests_running", "of": "sum", **panel},
        ]
    )
    model = {"model_name": "m"}
    for turn in range(3):
        count = float(turn * asked * 10)
        buckets = [({**model, "le": edge}, count) for edge in ("1.0", "+Inf")]
        values = {
            f"{first}_bucket": buckets,
            "vllm:prompt_tokens_total": [(model, count * 5000)],
            "vllm:generation_tokens_total": [(model, count * 100)],
            "vllm:num_requests_running": [(model, float(7 - turn))],
        }
        kept.add({"spark-1": reading.Reading(1000.0 + turn * 10, values)})
    return kept


def test_the_hour_s_lengths_and_its_most_users_are_what_was_asked() -> None:
    hour = looks(3).hour("m")
    assert (hour.prompt, hour.answer, hour.most) == (pytest.approx(5000), pytest.approx(100), 7)
    assert looks(0).hour("m") == part("page", "last_hour").Hour(most=7)
    assert looks(3).hour("other") == part("page", "last_hour").Hour()


def test_advice_is_of_the_hour_s_lengths_and_where_nobody_asks_of_its_most() -> None:
    advice, kept = part("page", "advice"), json.loads(handed("s"))["models"][0]
    said = advice.bench_and_advice(kept, "s", {"requests_running": 0.0}, looks(3).hour("m"))["advice"]
    assert said["sentence"].startswith("At 7 users, the most of the last hour, replicas (balanced) would give 33 % ")
    assert said["lengths"] == (
        "Computed for prompts of 8,192 tokens and answers of 128, the nearest to the last hour's 5,000 and 100."
    )
    nobody = part("page", "last_hour").Hour()
    said = advice.bench_and_advice(kept, "s", {"requests_running": 0.0}, nobody)["advice"]
    assert said == {"sentence": "Nobody asks now, nor has in the last hour: nothing is advised."}
    kept["advice"][0]["users"][1] = None
    said = advice.bench_and_advice(kept, "s", {"requests_running": 2.0}, nobody)["advice"]
    assert said["sentence"] == "At 2 users as now nothing is known of other topologies."


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with a page, whose root keeps files to itself."""
    monkeypatch.setattr(hands, "PAGE", tmp_path / "page.json")
    monkeypatch.setattr(hands, "PLACE", tmp_path / "lib/page/advice.json")
    (tmp_path / "page.json").touch()
    (tmp_path / "lib").mkdir(mode=0o700)
    return tmp_path


def given(monkeypatch: pytest.MonkeyPatch, text: str) -> Taken:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return hands.main()


def test_it_is_put_where_everybody_may_read_it_and_nobody_else_writes(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in (handed("a"), handed("b")):
        assert given(monkeypatch, text) == {"page": True} and hands.PLACE.read_text() == text
    assert stat.S_IMODE(hands.PLACE.stat().st_mode) == 0o644
    assert stat.S_IMODE((node / "lib").stat().st_mode) == 0o711
    assert [file.name for file in hands.PLACE.parent.iterdir()] == ["advice.json"]


def test_what_is_broken_or_has_no_room_leaves_what_was_there(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, handed("a"))
    assert given(monkeypatch, handed("b")[:-9])["problem"] == "it came here broken, and nothing was changed"
    assert hands.PLACE.read_text() == handed("a")
    (hands.PLACE.with_suffix(".part")).mkdir()
    said = given(monkeypatch, handed("b"))
    assert said["problem"].endswith("advice.part: Is a directory") and hands.PLACE.read_text() == handed("a")


def test_a_node_without_a_page_is_given_nothing(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hands.PAGE.unlink()
    assert given(monkeypatch, handed("a")) == {"page": False} and not hands.PLACE.exists()
