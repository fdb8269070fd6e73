"""What a start of an engine is at and has taken: a real log of vLLM's on the CPU, and lines as sources have them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from operations.node.unit import phases
from operations.node.unit import starts as node_starts
from operations.plan.engines import ENGINES, starts
from operations.wire.starts import Phases, Start
from tests.node.shipped import FILES, part
from tests.support.serving import Quiet, serving
from tests.support.waiting import until

STARTS = Path(__file__).parent / "starts"
REAL = STARTS / "vllm-0.32.0-cpu.jsonl"
MARKS = starts.told(ENGINES["vllm"].STARTS)
#: What vLLM's sources (0.31) and FlashInfer's have the GPU's workers say, with seconds from the start.
GPU = (
    (2, "tandem: the container runs"),
    (9, "(EngineCore pid=9) INFO 11-20 10:00:09 [core.py:133] Initializing a V1 LLM engine (v0.31.0) with config: x"),
    (20, "(Worker pid=9) INFO 11-20 10:00:20 [gpu_model_runner.py:5040] Starting to load model /hub/m..."),
    (21, "Loading safetensors checkpoint shards:   0% Completed | 0/17 [00:00<?, ?it/s]"),
    (200, "(Worker pid=9) INFO 11-20 10:03:20 [default_loader.py:501] Loading weights took 178.20 seconds"),
    (210, "(Worker) INFO [gpu_model_runner.py:5150] Model loading took 69.5 GiB memory and 189.123456 seconds"),
    (222, "(Worker pid=9) INFO 11-20 [backends.py:1167] Dynamo bytecode transform time: 8.00 s"),
    (252, "(Worker pid=9) INFO 11-20 [monitor.py:20] torch.compile took 38.00 s in total"),
    (260, "(Worker pid=9) INFO 11-20 [gpu_worker.py:480] Available KV cache memory: 12.00 GiB"),
    (
        265,
        "(Worker) 2026-11-20 - INFO - autotuner.py:829 - flashinfer.jit: [Autotuner]: Autotuning process starts ...",
    ),
    (
        295,
        "(Worker) 2026-11-20 - INFO - autotuner.py:852 - flashinfer.jit: [Autotuner]: Autotuning process ends",
    ),
    (296, "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/51 [00:00<?, ?it/s]"),
    (330, "(Worker pid=9) INFO 11-20 [gpu_model_runner.py:6582] Graph capturing finished in 34 secs, took 0.70 GiB"),
    (335, "(EngineCore) INFO [core.py:386] init engine (profile, create kv cache, warmup model) took 125.0 s"),
    (340, "INFO:     Application startup complete."),
)


def logged(file: Path) -> list[tuple[float, str]]:
    """A log that a journal has kept. Its times are those of the wall clock, which stood still for none of them."""
    text = file.read_text().replace("__REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP")
    return phases.lines_of(text.splitlines())


def test_a_real_log_of_vllm_on_the_cpu_is_read() -> None:
    lines = logged(REAL)
    began, until = lines[0][0], lines[-1][0]
    found = phases.read(lines, MARKS, began, until)
    assert list(found["phases"]) == ["container", "imports", "weights", "warm-up", "server"]
    assert sum(found["phases"].values()) == pytest.approx(until - began)
    # Python's imports are nearly all of it: the model has some hundred kilobytes.
    assert found["phases"]["imports"] > 0.7 * (until - began) and found["now"] == "server"


def test_a_progress_bar_is_a_line_although_the_journal_has_it_as_bytes() -> None:
    said = [line for _, line in logged(REAL)]
    assert any(line.startswith("Loading safetensors checkpoint shards: 100%") for line in said)


def on_h100(name: str = "") -> list[tuple[float, str]]:
    """vLLM 0.24.0's own log of a start on an H100, 20.7 GiB of random weights, with its V2 model runner. Where Tandem
    had not chosen the loader, its line is added.
    """
    return logged(STARTS / f"vllm-0.24.0-h100{name}.jsonl")


def test_a_real_log_of_vllm_on_a_gpu_is_read() -> None:
    lines = on_h100()
    found = phases.read(lines, MARKS, lines[0][0], lines[-1][0])
    took = {name: round(seconds) for name, seconds in found["phases"].items()}
    assert took == {"imports": 38, "weights": 16, "warm-up": 4, "compile": 3, "graphs": 0, "server": 1}
    assert found["gib"] == 20.74 and found["loader"] == "instanttensor"


def test_what_the_gpu_s_workers_say_is_told_apart() -> None:
    found = phases.read(GPU, MARKS, 0, 341)
    assert found["phases"] == {
        "container": 2, "imports": 18, "weights": 190, "warm-up": 4 + 8 + 5 + 1 + 5,
        "compile": 38, "autotune": 30, "graphs": 34, "server": 6,
    }  # fmt: skip
    assert found["gib"] == 69.5 and sum(found["phases"].values()) == 341


def test_llama_cpp_is_read_by_its_own_log() -> None:
    """As release 0.7.0 has said it on a CPU."""
    log = [
        (10.0, "tandem: the container runs"),
        (10.5, "0.00.001.263 I srv  llama_server: initializing ..."),
        (11.0, "0.00.058.452 I srv    load_model: loading model '/model/tiny-llama-F32.gguf'"),
        (31.0, "0.20.218.917 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 131072, kv_unified = 'true'"),
        (33.0, "0.22.222.208 I srv  llama_server: listening on http://127.0.0.1:8001"),
    ]
    found = phases.read(log, starts.told(ENGINES["llama-cpp"].STARTS), 8, 34)
    assert found["phases"]["weights"] == 20 and found["phases"]["warm-up"] == 2 and found["now"] == "server"


def test_sglang_and_tensorrt_llm_are_read_as_others_have_published_their_logs() -> None:
    of_sglang = (
        (1, "tandem: the container runs"),
        (30, "[2026-02-26 05:20:09 TP0] Load weight begin. avail mem=111.97 GB"),
        (
            258,
            "[2026-02-26 05:24:09 TP0] Load weight end. elapsed=228.09 s, avail mem=29.01 GB, mem usage=82.97 GB.",
        ),
        (270, "[2026-02-26 05:24:20 TP0] Capture target decode CUDA graph begin. This can take up to several minutes."),
        (310, "[2026-02-26 05:25:00 TP0] Capture target decode CUDA graph end. elapsed=40.00 s"),
        (315, "[2026-02-26 05:25:05] The server is fired up and ready to roll!"),
    )
    found = phases.read(of_sglang, starts.told(ENGINES["sglang"].STARTS), 0, 316)
    assert found["phases"] == {"container": 1, "imports": 29, "weights": 228, "warm-up": 17, "graphs": 40, "server": 1}
    assert found["gib"] == 82.97
    of_trt = (
        (1, "tandem: the container runs"),
        (40, "[12/20/2025-04:20:21] [TRT-LLM] [I] Use 63.32 GB for model weights."),
        (89, "Model init total -- 49.14s"),
        (95, "[12/20/2025-04:21:10] [TRT-LLM] [I] [Autotuner] Autotuning process starts ..."),
        (120, "[12/20/2025-04:21:37] [TRT-LLM] [I] [Autotuner] Autotuning process ends"),
        (121, "[12/20/2025-04:21:37] [TRT-LLM] [I] Creating CUDA graph instances for 11 batch sizes."),
        (140, "INFO:     Started server process [7]"),
    )
    found = phases.read(of_trt, starts.told(ENGINES["tensorrt-llm"].STARTS), 0, 141)
    assert found["phases"] == {
        "container": 1, "imports": 39, "weights": 49, "warm-up": 7, "autotune": 25, "graphs": 19, "server": 1,
    }  # fmt: skip


def test_a_clock_that_was_set_back_takes_no_time_from_a_phase() -> None:
    found = phases.read(((5, "tandem: the container runs"), (3, "Starting to load model x")), MARKS, 0, 9)
    assert found["phases"] == {"container": 5, "weights": 4}


def test_the_wait_for_other_ranks_is_no_part_of_a_load() -> None:
    found = phases.read(
        ((1, "tandem: waiting for 1 more ranks"), (400, "tandem: all ranks are here: starting"), (401, GPU[0][1])),
        MARKS, 0, 411,
    )  # fmt: skip
    assert found["phases"] == {"container": 1, "meeting": 400, "imports": 10}
    assert phases.loading_s(found["phases"]) == 11


def start(spec: str = "s", *, took: float = 60, ended: str = "", **more: Any) -> Start:
    """One that is over."""
    made: Any = {"unit": "tandem-engine", "spec": spec, "recipe": "r", "when": 0.0, "phases": {"weights": took}}
    made |= {"gib": 0.0, "read_gib": 0.0, "loader": "", "ended": ended, "why": "", "blamed": "", **more}
    found: Start = made
    return found


def test_a_file_of_starts_is_bounded_and_never_forgets_the_longest_of_a_plan(tmp_path: Path) -> None:
    place = tmp_path / "starts.json"
    for took in (900, *range(60, 80)):
        phases.keep(start(took=took), place)
    assert len(phases.kept(place)) == phases.OF_A_PLAN and phases.longest(phases.kept(place)) == {"s": 900}
    for number in range(phases.IN_ALL):
        phases.keep(start(f"plan-{number % 20}"), place)
    assert len(phases.kept(place)) == phases.IN_ALL and phases.longest(phases.kept(place))["s"] == 900
    for number in range(2 * phases.IN_ALL):
        phases.keep(start(f"other-{number}"), place)
    assert len(phases.kept(place)) == phases.IN_ALL
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".part"] == []


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '[{"unit": "x"}]', "{}"])
def test_a_broken_file_of_starts_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "starts.json").write_text(text)
    assert phases.kept(tmp_path / "starts.json") == []


@pytest.mark.parametrize(
    "bad",
    [
        1,
        None,
        [],
        *({**start(), name: value} for name, value in (
            ("phases", {"weights": "x"}), ("phases", {"weights": float("inf")}), ("phases", None), ("phases", []),
            ("when", "x"), ("when", 1e30), ("when", float("nan")), ("gib", None),
            ("spec", []), ("unit", {}), ("why", 3), ("loader", None),
        )),
    ],
)  # fmt: skip
def test_an_entry_that_somebody_has_broken_is_left_out_and_no_other(tmp_path: Path, bad: Any) -> None:
    place = tmp_path / "starts.json"
    place.write_text(json.dumps([start(took=5), bad, start(took=7)]))
    assert [each["phases"]["weights"] for each in phases.kept(place)] == [5, 7]
    phases.keep(start(took=9), place)
    assert phases.longest(phases.kept(place)) == {"s": 9}


def test_a_time_that_no_start_takes_is_not_the_longest(tmp_path: Path) -> None:
    """As a clock that was set has measured it."""
    place = tmp_path / "starts.json"
    phases.keep(start(took=86_409), place)
    for took in range(60, 70):
        phases.keep(start(took=took), place)
    assert phases.longest(phases.kept(place)) == {"s": 69}
    assert [each["phases"]["weights"] for each in phases.kept(place)] == list(range(62, 70)), "nor is it kept for that"


@pytest.mark.parametrize(
    ("engine", "line"),
    [
        ("vllm", "Model loading took 1.2.3 GiB memory and 4 seconds"),
        ("vllm", "Dynamo bytecode transform time: 1..2 s"),
        ("sglang", "Load weight end. elapsed=1 s, mem usage=. GB."),
        ("tensorrt-llm", "Use 6.3.2 GB for model weights."),
    ],
)
def test_a_number_that_is_none_ends_nobody_who_reads_the_log(engine: str, line: str) -> None:
    log = ((1.0, GPU[0][1]), (2.0, line))
    found = phases.read(log, starts.told(ENGINES[engine].STARTS), 0, 9)
    assert found["gib"] == 0 and sum(found["phases"].values()) == 9


@pytest.mark.parametrize("message", [["a", "b"], [300], 5, {"a": 1}, None, True, [None]])
def test_what_a_journal_does_not_have_as_a_rule_ends_nobody_who_reads_it(message: Any) -> None:
    entries = [{"__MONOTONIC_TIMESTAMP": "1000000", "MESSAGE": each} for each in (message, "a line")]
    lines = phases.lines_of([*map(json.dumps, entries), "[]", "{", '{"__MONOTONIC_TIMESTAMP": []}'])
    assert lines[-1] == (1.0, "a line") and len(lines) <= 2


def test_a_start_that_never_served_says_nothing_of_how_long_one_takes() -> None:
    assert phases.longest([start(took=5, ended="weights"), start(took=70)]) == {"s": 70}


def test_what_is_left_is_told_by_the_last_start_of_the_same_plan() -> None:
    last = start(phases={"container": 2, "imports": 18, "weights": 180, "warm-up": 40, "server": 10})
    now = phases.read(GPU[:4], MARKS, 0, 80)
    assert phases.left(now, [last]) == 120 + 40 + 10
    assert phases.left(now, []) is None
    text = node_starts.sentence(now, [last], 0, 80)
    assert text == (
        "starts since 1 min 20 s: the weights are loaded, since 1 min 0 s; "
        "about 2 min 50 s left, as the last start took 4 min 10 s"
    )
    assert "is not known" in node_starts.sentence(now, [], 0, 80)
    late = phases.read(GPU, MARKS, 0, 1000)
    assert node_starts.sentence(late, [last], 0, 1000).endswith("; the last took 4 min 10 s")


def test_status_tells_a_start_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine/starts.json").write_text(json.dumps({"marks": MARKS}))
    # By the wall clock it has begun in another year: somebody has set that.
    begun = {"unit": "tandem-engine", "spec": "s", "invocation": "i", "when": 7e9, "since": time.monotonic() - 30}
    (tmp_path / "engine.start.json").write_text(json.dumps(begun))
    monkeypatch.setattr(node_starts, "RUN", tmp_path)
    monkeypatch.setattr(node_starts, "folder_of", lambda unit: f"{tmp_path}/{unit.removeprefix('tandem-')}")
    monkeypatch.setattr(phases, "journal", lambda _invocation: [(time.monotonic() - 10, "Starting to load model x")])
    monkeypatch.setattr(phases, "kept", lambda: [start()])
    assert node_starts.main()["under_way"]["tandem-engine"].startswith(
        "starts since 30 s: the weights are loaded, since 10 s"
    )
    assert node_starts.main(["tandem-engine-other"]) == {"starts": [], "under_way": {}}
    (tmp_path / "engine.start.json").write_text("{")
    assert node_starts.under_way("tandem-engine") == ""


SPEC: Any = {"unit": "tandem-engine", "spec": "s", "recipe": "r", "url": "", "marks": MARKS, "faults": {}}


def shipped() -> Any:
    """files/engine/starts.py, with phases.py beside it as on a node."""
    return part("engine", "starts")


def seen(*lines: str, loader: str = "fastsafetensors") -> tuple[Phases, list[tuple[float, str]]]:
    of = [(1.0, GPU[0][1]), (2.0, f"{starts.LOADS_BY} {loader} 0.1.15, which the image has"), (9.0, GPU[2][1])]
    of += [(10.0 + at, line) for at, line in enumerate(lines)]
    return phases.read(of, MARKS, 0, 60), of


FAULTS = {"fastsafetensors": "fastsafetensors"}


def test_a_start_that_ends_in_its_load_is_held_against_the_loader_that_an_error_names() -> None:
    program = shipped()
    found, lines = seen("ModuleNotFoundError: No module named 'fastsafetensors.parallel_loader'")
    assert found["now"] == "weights" and program.blamed(found, lines, FAULTS) == "fastsafetensors"
    # Nobody has chosen one: nothing is held against the engine's own way.
    assert program.blamed({**found, "loader": ""}, lines, FAULTS) == ""


@pytest.mark.parametrize(
    ("said", "is_blamed"),
    [
        ("OSError: [Errno 5] Input/output error: '/model/model-00003.safetensors'", True),
        ("safetensors_rust.SafetensorError: Error while deserializing header", True),
        ("WARNING [system_utils.py:299] ulimit of 20000 can cause errors like `OSError: [Errno 24]`", False),
        ("OSError: [Errno 12] Cannot allocate memory", False),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 160.00 MiB", False),
        ("ValueError: There is no module or parameter named 'lm_head.scale' in LlamaForCausalLM", False),
        ("Loading fastsafetensors checkpoint shards: 40% Completed", False),
    ],
)
def test_another_end_of_the_load_is_the_loader_s_only_where_a_file_could_not_be_read(
    said: str, is_blamed: bool
) -> None:
    found, lines = seen(said)
    assert shipped().blamed(found, lines, FAULTS) == ("fastsafetensors" if is_blamed else "")


@pytest.mark.parametrize(
    ("name", "blamed", "why"),
    [
        ("-no-memory", "", "torch.OutOfMemoryError: CUDA out of memory"),
        ("-no-memory-fastsafetensors", "fastsafetensors", "torch.OutOfMemoryError: CUDA out of memory"),
        ("-half-instanttensor", "instanttensor", "TypeError: cannot unpack non-iterable NoneType"),
        ("-half-fastsafetensors", "fastsafetensors", "Exception: MetadataIncompleteBuffer"),
    ],
)
def test_real_ends_of_a_load_are_held_against_whom_they_name(name: str, blamed: str, why: str) -> None:
    """A GPU that another program had filled; one with no room beside the model for the loader's buffer; half a file."""
    program, lines = shipped(), on_h100(name)
    found = phases.read(lines, MARKS, lines[0][0], lines[-1][0])
    faults = {each: loader.fault for each, loader in ENGINES["vllm"].LOADERS.items() if loader.fault}
    assert found["now"] == "weights" and program.blamed(found, lines, faults) == blamed
    # Not the last word, which says that the cause stands elsewhere.
    assert why in program._why(lines)


def test_one_that_ends_later_is_not_unless_the_loader_s_own_words_are_in_the_error() -> None:
    program = shipped()
    found, lines = seen(
        GPU[5][1], "non-default args: {'load_format': 'fastsafetensors'}", "torch.OutOfMemoryError: CUDA"
    )
    assert found["now"] == "warm-up" and program.blamed(found, lines, FAULTS) == ""
    found, lines = seen(GPU[5][1], '  File "/opt/x/fastsafetensors/loader.py", line 3, in get', "RuntimeError: gone")
    assert program.blamed(found, lines, FAULTS) == "fastsafetensors"


def test_what_was_read_from_disk_is_counted_in_the_load_of_weights_alone() -> None:
    found, _ = seen(GPU[5][1])
    counted = [(0.0, 100), (8.9, 1000), (10.1, 5096), (60.0, 9000)]
    assert shipped().read_mib(found, counted) == 4096
    assert shipped().read_mib(found, []) == 0
    assert shipped().paged_in_mib() > 0


class LoadedDouble(Quiet):
    """An engine that has loaded."""

    def do_GET(self) -> None:
        self.reply()


#: `starts.py` as it lies on a node, with its places in a folder of a test's and a journal that tells what a file has.
RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import phases, starts
home = Path(sys.argv[2])
starts.RUN, phases.KEPT, starts.LOOK_S = home / "run", home / "starts.json", 0.05
phases.keep.__defaults__ = phases.kept.__defaults__ = (phases.KEPT,)
phases.journal = lambda invocation: phases.lines_of((home / invocation).read_text().splitlines())
starts.is_asked = lambda unit: (home / "asked").exists()
sys.exit(starts.main(sys.argv[3:]))
"""


def told(home: Path, **changes: Any) -> None:
    """What lies beside the engine."""
    code = home / "engine"
    code.mkdir(exist_ok=True)
    (home / "run").mkdir(exist_ok=True)
    for name in ("starts.py", "memory.py"):
        (code / name).write_text((FILES / "engine" / name).read_text())
    (code / "phases.py").write_text(Path(phases.__file__).read_text())
    (code / "starts.json").write_text(json.dumps({**SPEC, **changes}))


def on_node(home: Path, *argv: str) -> subprocess.Popen[str]:
    code = home / "engine"
    env = {**os.environ, "INVOCATION_ID": "journal", "PYTHONDONTWRITEBYTECODE": "1"}
    argv = (sys.executable, "-c", RUN, str(code), str(home), *argv)
    return subprocess.Popen(argv, env=env, text=True, stdout=subprocess.PIPE)


def log(home: Path, *lines: str, ago: float = 0.0, wall: float = 0.0) -> None:
    """What the journal has of it, `ago` seconds old; `wall`: by which the clock was wrong then."""
    times = {
        "__REALTIME_TIMESTAMP": str(round((time.time() - ago + wall) * 1e6)),
        "__MONOTONIC_TIMESTAMP": str(round((time.monotonic() - ago) * 1e6)),
    }
    (home / "journal").write_text("\n".join(json.dumps({**times, "MESSAGE": line}) for line in lines))


def mark(home: Path, *, spec: str = "s", ago: float = 0.0, wall: float = 0.0) -> None:
    """A start that goes on, as `beside` notes it."""
    begun = {"unit": "tandem-engine", "spec": spec, "recipe": "r", "invocation": "journal"}
    times = {"when": time.time() - ago + wall, "since": time.monotonic() - ago}
    (home / "run/engine.start.json").write_text(json.dumps({**begun, **times}))


def test_the_program_on_the_node_keeps_a_start_that_came_to_serve(tmp_path: Path) -> None:
    with serving(LoadedDouble) as url:
        told(tmp_path, url=f"{url}/")
        log(tmp_path, "tandem: waiting for 1 more ranks")
        running = on_node(tmp_path, "beside")
        until((tmp_path / "run/engine.start.json").exists, 30)
        time.sleep(0.5)
        # Whoever answers there is not of this start: its ranks have not met.
        assert running.poll() is None and not (tmp_path / "starts.json").exists()
        log(tmp_path, "tandem: waiting for 1 more ranks", "tandem: the container runs")
        assert running.wait(30) == 0
    (kept,) = phases.kept(tmp_path / "starts.json")
    assert (kept["spec"], kept["ended"]) == ("s", "") and not (tmp_path / "run/engine.start.json").exists()


@pytest.mark.parametrize("asked", [False, True], ids=["ended by itself", "asked to stop"])
def test_a_start_that_ends_before_it_serves_is_kept_unless_it_was_asked_to(tmp_path: Path, asked: bool) -> None:
    told(tmp_path, faults=FAULTS)
    mark(tmp_path)
    if asked:
        (tmp_path / "asked").touch()
    log(tmp_path, GPU[0][1], f"{starts.LOADS_BY} fastsafetensors 0.1", GPU[2][1], "ImportError: no fastsafetensors.x")
    assert on_node(tmp_path, "ended").wait(30) == 0
    ends = [(each["ended"], each["blamed"], each["why"]) for each in phases.kept(tmp_path / "starts.json")]
    assert ends == ([] if asked else [("weights", "fastsafetensors", "ImportError: no fastsafetensors.x")])
    assert not (tmp_path / "run/engine.start.json").exists()
    # The next start of the same plan is told so; that of another one is not.
    said = on_node(tmp_path, "failed").communicate(timeout=30)[0]
    assert said.endswith("ImportError: no fastsafetensors.x") is not asked
    told(tmp_path, spec="other")
    assert on_node(tmp_path, "failed").communicate(timeout=30)[0] == ""


@pytest.mark.parametrize(
    ("last", "is_blamed"),
    [
        ("Loading fastsafetensors checkpoint shards:  40%", ["", "fastsafetensors"]),
        ("torch.OutOfMemoryError: CUDA out of memory", ["", ""]),
    ],
    ids=["without a word", "out of memory"],
)
def test_a_second_end_in_a_row_that_nobody_explains_is_the_loader_s(
    tmp_path: Path, last: str, is_blamed: list[str]
) -> None:
    told(tmp_path, faults=FAULTS)
    log(tmp_path, GPU[0][1], f"{starts.LOADS_BY} fastsafetensors 0.1", GPU[2][1], last)
    # The cluster's programs see it, and the drop-in starts an engine of another spec (files/fallback/alone.conf.j2).
    told(tmp_path, faults=FAULTS, spec="of the cluster")
    for number in range(2):
        mark(tmp_path)
        assert on_node(tmp_path, "ended").wait(30) == 0
        kept = phases.kept(tmp_path / "starts.json")
        assert [each["blamed"] for each in kept] == is_blamed[: number + 1]


def test_what_is_held_against_a_loader_stays_however_many_starts_follow(tmp_path: Path) -> None:
    place = tmp_path / "starts.json"
    phases.keep(start(took=5, ended="weights", why="older", blamed="fastsafetensors"), place)
    phases.keep(start(took=5, ended="weights", why="x", blamed="fastsafetensors"), place)
    for _ in range(2 * phases.OF_A_PLAN):
        phases.keep(start(), place)
    assert len(phases.kept(place)) == phases.OF_A_PLAN
    for number in range(phases.IN_ALL):
        phases.keep(start(f"plan-{number % 20}"), place)
    assert len(phases.kept(place)) == phases.IN_ALL
    assert [each["why"] for each in phases.kept(place) if each["blamed"]] == ["x"]


@pytest.mark.parametrize(
    ("since", "held"),
    [
        ([], True),
        ([{"loader": "engine"}, {"loader": "engine", "ended": "graphs"}], True),
        # It was taken again since, by what is not kept any more, and has served.
        ([{"loader": "fastsafetensors"}], False),
        # The file was broken: nobody can load it. Mended, the loader may.
        ([{"loader": "engine"}, {"loader": "engine", "ended": "weights"}], False),
        ([{"loader": "engine", "ended": "weights"}, {"loader": "fastsafetensors"}, {"loader": ""}], False),
        (
            [
                {"loader": "engine", "ended": "weights"},
                {"loader": "fastsafetensors", "ended": "weights", "blamed": "fastsafetensors"},
            ],
            True,
        ),
    ],
)
def test_a_loader_is_tried_again_where_the_engine_s_own_way_has_failed_too(
    tmp_path: Path, since: list[dict[str, str]], held: bool
) -> None:
    told(tmp_path, faults=FAULTS)
    place = tmp_path / "starts.json"
    phases.keep(start(loader="fastsafetensors", ended="weights", why="x", blamed="fastsafetensors"), place)
    for each in since:
        phases.keep(start(**each), place)  # type: ignore[arg-type]
    process = on_node(tmp_path, "failed")
    assert process.communicate(timeout=30)[0].startswith("fastsafetensors failed on ") == held


def test_the_engine_s_own_way_is_no_loader_to_blame(tmp_path: Path) -> None:
    told(tmp_path, faults=FAULTS)
    log(tmp_path, GPU[0][1], f"{starts.LOADS_BY} engine, its own way", GPU[2][1], "Loading: 40%")
    for _ in range(2):
        mark(tmp_path)
        assert on_node(tmp_path, "ended").wait(30) == 0
    # Nor where an error has its name, as that of any class of it has, or a file can't be read.
    log(tmp_path, f"{starts.LOADS_BY} engine, its own way", GPU[2][1], "OSError: engine: Input/output error")
    mark(tmp_path, ago=5)
    assert on_node(tmp_path, "ended").wait(30) == 0
    assert [each["blamed"] for each in phases.kept(tmp_path / "starts.json")] == ["", "", ""]
    # A line of the engine's log is not everybody's to read.
    assert (tmp_path / "starts.json").stat().st_mode & 0o777 == 0o600


def test_an_error_that_is_quoted_from_a_start_before_is_no_new_one() -> None:
    """The line by which the engine's own way is taken names the loader, and why it failed."""
    program, old = shipped(), "fastsafetensors failed on 2026-11-27 10:00: OSError: Input/output error"
    assert program.LOADS_BY == starts.LOADS_BY
    quoted = f"{starts.LOADS_BY} engine, its own way: {old}"
    found, lines = seen("Loading safetensors checkpoint shards: 40%", quoted)
    assert program._why(lines) == "Loading safetensors checkpoint shards: 40%"
    assert program.blamed(found, lines, FAULTS) == "", "nor where a loader was chosen all the same"
    assert program._why([(1.0, quoted)]) == "no word in its log"


@pytest.mark.parametrize("asked", [False, True], ids=["the canary kills it", "it is stopped"])
@pytest.mark.parametrize(
    ("ago", "usual", "loader", "is_blamed"),
    [
        (700, 0, "fastsafetensors", True),
        (500, 0, "fastsafetensors", False),
        # This plan's loads take long.
        (700, 240, "fastsafetensors", False),
        (800, 240, "fastsafetensors", True),
        (9000, 0, "engine", False),
    ],
)
def test_a_loader_that_hangs_is_to_blame_whoever_ends_the_start(
    tmp_path: Path, ago: float, usual: float, loader: str, is_blamed: bool, asked: bool
) -> None:
    told(tmp_path, faults=FAULTS)
    phases.keep(start(took=usual), tmp_path / "starts.json")
    log(tmp_path, GPU[0][1], f"{starts.LOADS_BY} {loader} 0.1", GPU[2][1], "Loading: 40%", ago=ago)
    mark(tmp_path, ago=ago + 5)
    if asked:
        (tmp_path / "asked").touch()
    assert on_node(tmp_path, "ended").wait(30) == 0
    _, *last = phases.kept(tmp_path / "starts.json")
    assert bool(last) is (is_blamed or not asked)
    why = f"not loaded after {ago / 60:.0f} minutes; its last word: Loading: 40%" if is_blamed else "Loading: 40%"
    assert all((each["blamed"], each["why"]) == (loader if is_blamed else "", why) for each in last)
    said = on_node(tmp_path, "failed").communicate(timeout=30)[0]
    assert said.endswith(why) is is_blamed


def test_a_clock_that_is_set_within_a_start_lengthens_no_phase(tmp_path: Path) -> None:
    told(tmp_path)
    # It was a day late when the start began.
    log(tmp_path, GPU[0][1], GPU[2][1], ago=20, wall=-86_400)
    mark(tmp_path, ago=30, wall=-86_400)
    assert on_node(tmp_path, "ended").wait(30) == 0
    (kept,) = phases.kept(tmp_path / "starts.json")
    assert 30 <= sum(kept["phases"].values()) < 90 and kept["phases"]["container"] == pytest.approx(10, abs=0.1)


def test_an_error_in_keeping_a_start_does_not_have_it_seen_again_and_again(tmp_path: Path) -> None:
    with serving(LoadedDouble) as url:
        told(tmp_path, url=f"{url}/")
        log(tmp_path, GPU[0][1])
        # A disk that is full is an OSError, and this is none.
        program = tmp_path / "engine/starts.py"
        program.write_text(program.read_text().replace("phases.keep(\n", 'wanted["nobody has it"](\n'))
        running = on_node(tmp_path, "beside")
        assert running.wait(30) == 0, "run.sh would start it again each second"
    assert not (tmp_path / "run/engine.start.json").exists()
