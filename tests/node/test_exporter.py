"""What a node exports: the real program asked over HTTP, and what it makes of what lies on a node."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from operations.node.unit import phases
from operations.paths import EXPORTER
from operations.plan.history import record
from tests.node.shipped import FILES, part
from tests.plan.samples import plan
from tests.plan.test_rules import promtool
from tests.support.ports import free_port
from tests.support.serving import Quiet, serving
from tests.support.waiting import until, until_it_listens

__all__ = ["promtool"]

exporter, facts, happened, machine, passed, text = (
    part("exporter", name) for name in ("exporter", "facts", "happened", "machine", "passed", "text")
)


def said(samples: Any) -> dict[str, float]:
    """`name{labels}` -> value, as Prometheus reads them."""
    lines = text.rendered(samples).splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


class FakeEngine(Quiet):
    """vLLM's metrics, and what nobody has asked for."""

    body = b'# HELP vllm:x Tokens.\n# TYPE vllm:x counter\nvllm:x{model="m"} 7\npython_gc 3\n# EOF\n'

    def do_GET(self) -> None:
        self.reply(self.body)


@contextmanager
def answering(body: bytes) -> Iterator[tuple[str, type[FakeEngine]]]:
    made = type("Engine", (FakeEngine,), {"body": body})
    with serving(made) as url:
        yield f"{url}/metrics", made


@pytest.fixture
def engine() -> Iterator[tuple[str, type[FakeEngine]]]:
    with answering(FakeEngine.body) as made:
        yield made


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """/run/tandem of a node."""
    monkeypatch.setattr(facts, "RUN", tmp_path)
    return tmp_path


def test_what_canary_and_fallback_say(run: Path) -> None:
    seen = {
        "rails": ["the rail enp1 has no carrier"],
        "away": {"spark-2": "2026-11-24 03:00:00"},
        "works": ["proxy"],
        "problems": {"engine": 'no answer for 9 s ("x")'},
        "killed": {"engine": "2026-11-24 03:00:00 no sign of life for 90 s"},
    }
    (run / "canary.json").write_text(json.dumps(seen))
    (run / "fallback.json").write_text(json.dumps({"says": "serves alone", "alone": True}))
    found = said([*facts._canary(), *facts._alone()])
    when = time.mktime(time.strptime("2026-11-24 03:00:00", "%Y-%m-%d %H:%M:%S"))
    assert found == {
        'tandem_works{of="proxy"}': 1.0,
        r'tandem_problem{of="engine",why="no answer for 9 s (\"x\")"}': 1.0,
        'tandem_problem{of="rails",why="the rail enp1 has no carrier"}': 1.0,
        'tandem_node_away{node="spark-2"}': 1.0,
        'tandem_killed_timestamp_seconds{of="engine",why="no sign of life for 90 s"}': when,
        'tandem_alone{why="serves alone"}': 1.0,
    }


def test_where_nobody_says_anything_nothing_is_said(run: Path) -> None:
    assert said([*facts._canary(), *facts._alone(), *facts._certificate("")]) == {}
    (run / "canary.json").write_text("[1")
    with pytest.raises(ValueError):
        list(facts._canary())


def test_who_has_the_lock_is_seen_without_a_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "lock"
    monkeypatch.setattr(facts, "LOCK", lock)
    assert said(facts._deploy()) == {}
    lock.touch()
    assert said(facts._deploy()) == {"tandem_deploy_under_way": 0.0}
    with subprocess.Popen(["flock", str(lock), "sleep", "60"]) as holder:
        until(lambda: said(facts._deploy()) == {"tandem_deploy_under_way": 1.0}, 10)
        holder.kill()


def test_units_of_a_plan_that_has_never_served_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "UNIT_FILES", tmp_path)
    monkeypatch.setattr(facts, "SERVED", tmp_path / "served.json")
    served, failed = plan(topology="replicas"), plan(topology="replicas", canary_deadline=7.0)
    units = [unit for unit, service in served.head.services.items() if service]
    for unit in units:
        service = failed.head.services[unit]
        assert service
        unit_file = next(file.content for file in service.files if file.path.endswith(".service"))
        (tmp_path / f"{unit}.service").write_text(unit_file)
    assert said(facts._proven(units, {})) == {}
    (tmp_path / "served.json").write_text(json.dumps([{"id": "of an older Tandem"}]))
    assert said(facts._proven(units, {})) == {}
    (tmp_path / "served.json").write_text(json.dumps([record(failed, {}), record(served, {})]))
    found = said(facts._proven([*units, "tandem-fallback"], {"tandem-engine": "m"}))
    assert 'tandem_unit_proven{unit="tandem-engine",model="m"}' in found
    assert found.pop('tandem_unit_proven{unit="tandem-canary"}') == 0
    # The firewall's rules have their spec, their unit has none.
    assert set(found.values()) == {1.0} and len(found) == len(units) - 2


def test_a_rail_without_a_carrier_has_no_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "NET", tmp_path)
    for device, carrier, speed in (("up", "1", "200000"), ("out", "0", "-1")):
        (tmp_path / device / "statistics").mkdir(parents=True)
        for name, value in (("carrier", carrier), ("speed", speed), ("mtu", "9000"), ("statistics/rx_bytes", "5")):
            (tmp_path / device / name).write_text(f"{value}\n")
    assert said(machine.rails(["up", "out", "none"])) == {
        'tandem_rail_carrier{device="up"}': 1.0,
        'tandem_rail_carrier{device="out"}': 0.0,
        'tandem_rail_carrier{device="none"}': 0.0,
        'tandem_rail_mtu_bytes{device="up"}': 9000.0,
        'tandem_rail_mtu_bytes{device="out"}': 9000.0,
        'tandem_rail_receive_bytes_total{device="up"}': 5.0,
        'tandem_rail_receive_bytes_total{device="out"}': 5.0,
        'tandem_rail_speed_bits{device="up"}': 2e11,
    }


def test_what_a_gb10_does_not_know_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '0, 2281, [N/A], 62, 96'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    asked = machine.Smi()
    assert said(asked.samples()) == {
        "tandem_gpu_answers": 1.0,
        'tandem_gpu_clock_hertz{gpu="0"}': 2.281e9,
        'tandem_gpu_temperature_celsius{gpu="0"}': 62.0,
        'tandem_gpu_busy_ratio{gpu="0"}': pytest.approx(0.96),
    }
    smi.write_text("#!/bin/sh\nexit 9\n")
    # It was asked a moment ago.
    assert len(said(asked.samples())) == 4
    assert said(machine.Smi().samples()) == {"tandem_gpu_answers": 0.0}


def test_names_that_are_wanted_are_passed_on(engine: tuple[str, type[FakeEngine]]) -> None:
    url, kind = engine
    given = passed.on("engine", url, "vllm:")
    assert passed.merged([given]) == '# HELP vllm:x Tokens.\n# TYPE vllm:x counter\nvllm:x{model="m"} 7\n'
    assert said(given.samples) == {'tandem_source_up{source="engine"}': 1.0}
    kind.body = b"vllm:x 1\n" * 600_000
    assert passed.merged([passed.on("engine", url, "vllm:")]) == ""
    gone = passed.on("engine", f"http://127.0.0.1:{free_port()}/metrics", "vllm:")
    assert (passed.merged([gone]), said(gone.samples)) == ("", {'tandem_source_up{source="engine"}': 0.0})


#: Of one engine: its names as those of the other, and some that do not say which model they are of.
VLLM = """\
# HELP vllm:num_requests_running Number of requests.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="MODEL"} 3.0
# HELP vllm:prompt_tokens_total Number of prefill tokens.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="MODEL"} 7.0
# HELP vllm:request_seconds Latency.
# TYPE vllm:request_seconds histogram
vllm:request_seconds_bucket{le="1.0",model_name="MODEL"} 1.0
vllm:request_seconds_bucket{le="+Inf",model_name="MODEL"} 2.0
vllm:request_seconds_count{model_name="MODEL"} 2.0
vllm:request_seconds_sum{model_name="MODEL"} 1.5
# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",why="a } b",engine="0"} 1.0
# HELP vllm:up Bare.
# TYPE vllm:up gauge
vllm:up 1
# HELP trtllm_requests_total Requests.
# TYPE trtllm_requests_total counter
trtllm_requests_total{model_name="undefined",engine_type="undefined"} 4
"""


def test_two_engines_say_each_name_once_and_no_sample_twice(promtool: str) -> None:
    with (
        answering(VLLM.replace("MODEL", "chat").encode()) as (chat, _),
        answering(VLLM.replace("MODEL", "coder").encode() + b"# TYPE vllm:more gauge\nvllm:more 1\n") as (coder, _),
        answering(b'# TYPE haproxy_up gauge\nhaproxy_up{proxy="clients"} 1\n') as (proxy, _),
    ):
        both = [
            passed.on("proxy", proxy, "haproxy_"),
            passed.on("engine-chat", chat, "vllm:|trtllm_", "chat"),
            passed.on("engine-coder", coder, "vllm:|trtllm_", "coder"),
        ]
    found = passed.merged(both)
    lines = found.splitlines()
    series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(series) == len(set(series)) == 2 * 9 + 2, found
    for name in ("vllm:request_seconds", "vllm:cache_config_info", "haproxy_up"):
        # Its samples are behind what it is, all of them.
        at = [index for index, line in enumerate(lines) if name in line]
        assert at == list(range(at[0], at[0] + len(at))), name
    checked = subprocess.run([promtool, "check", "metrics"], input=found, capture_output=True, text=True, check=False)
    # It also has an opinion on names.
    assert checked.returncode in (0, 3) and "parsing" not in checked.stdout + checked.stderr, checked.stderr
    for line in (
        'vllm:num_requests_running{engine="0",model_name="chat"} 3.0',
        'vllm:cache_config_info{block_size="16",why="a } b",engine="0",model_name="coder"} 1.0',
        'vllm:up{model_name="chat"} 1',
        'trtllm_requests_total{engine_type="undefined",model_name="coder"} 4',
        'haproxy_up{proxy="clients"} 1',
        'vllm:more{model_name="coder"} 1',
    ):
        assert line in lines, found
    assert said([sample for each in both for sample in each.samples]) == {
        'tandem_source_up{source="proxy"}': 1.0,
        'tandem_source_up{source="engine-chat",model="chat"}': 1.0,
        'tandem_source_up{source="engine-coder",model="coder"}': 1.0,
    }


def test_a_unit_of_an_engine_is_told_with_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    systemctl = tmp_path / "systemctl"
    units = ("tandem-engine-coder", "tandem-proxy")
    blocks = "\n\n".join(
        f"Id={unit}.service\nLoadState=loaded\nActiveState=failed\nNRestarts=2\nActiveEnterTimestampMonotonic=0"
        for unit in units
    )
    systemctl.write_text(f"#!/bin/sh\ncat <<'END'\n{blocks}\nEND\n")
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    models = facts.models_of([{"unit": "tandem-engine-coder", "model": "coder"}])
    found = said(facts._units(list(units), 5, models))
    assert found['tandem_unit_failed{unit="tandem-engine-coder",model="coder"}'] == 1
    assert found['tandem_unit_restarts{unit="tandem-engine-coder",model="coder"}'] == 2
    assert found['tandem_unit_failed{unit="tandem-proxy"}'] == 1


def test_a_journal_that_is_slow_keeps_no_scrape_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> bytes:
        begun.set()
        go_on.wait(10)
        return b""

    monkeypatch.setattr(happened, "as_json", slow)
    monkeypatch.setattr(facts, "_parts", lambda _: [])
    asked = exporter.Exporter({"facts": {}, "passed": {}})
    page = threading.Thread(target=asked.events, daemon=True)
    page.start()
    assert begun.wait(5)
    scraped = threading.Thread(target=asked.text, daemon=True)
    scraped.start()
    scraped.join(3)
    is_late = scraped.is_alive()
    go_on.set()
    page.join()
    assert not is_late


def test_the_program_answers_with_all_that_can_be_had(tmp_path: Path, engine: tuple[str, type[FakeEngine]]) -> None:
    beside = [FILES.parent / "operations/node" / each for each in ("door/speaking.py", "unit/phases.py")]
    for source in [*(FILES / "exporter").glob("*.py"), *beside]:
        shutil.copy(source, tmp_path)
    mine = plan(monitoring="metrics").head.services[EXPORTER]
    assert mine
    wanted = json.loads(next(file.content for file in mine.files if file.path.endswith(".json")))
    assert wanted["address"] == "192.168.177.11" and wanted["port"] == 8020
    port = free_port()
    wanted |= {"address": "127.0.0.1", "port": port, "passed": {"engine": {"url": engine[0], "names": "vllm:"}}}
    (tmp_path / "exporter.json").write_text(json.dumps(wanted))
    process = subprocess.Popen([sys.executable, "-B", str(tmp_path / "exporter.py"), mine.spec])
    try:
        until_it_listens(port)
        answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        found = answer.read().decode()
        for line in (
            "tandem_memory_available_bytes ",
            "tandem_memory_floor_bytes 4294967296.0",
            'tandem_disk_free_bytes{path="/"} ',
            'tandem_plan_info{recipe="nemotron-3-super-nvfp4-auto",topology="cluster",model="nemotron",spec="',
            'vllm:x{model="m"} 7',
        ):
            assert f"\n{line}" in found, found
        names = [line.split()[2] for line in found.splitlines() if line.startswith("# TYPE")]
        assert len(names) == len(set(names))
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/other", timeout=10)
    finally:
        process.kill()
        process.wait()


def test_how_long_the_last_starts_of_the_plan_took_is_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(took: float, **more: Any) -> Any:
        made = {"unit": "tandem-engine", "spec": "s", "phases": {"weights": took, "meeting": 99.0}, "ended": ""}
        return {**made, "gib": 30.0, **more}

    kept = [start(900), start(60), start(5, spec="another"), start(7, ended="weights")]
    monkeypatch.setattr(phases, "kept", lambda: kept)
    plans: Any = [{"unit": "tandem-engine", "spec": "s", "model": "m", "recipe": "r", "topology": "solo"}]
    labels = 'unit="tandem-engine",model="m"'
    assert said(facts._starts(plans)) == {
        f'tandem_start_seconds{{{labels},phase="weights"}}': 60,
        f'tandem_start_seconds{{{labels},phase="meeting"}}': 99,
        f"tandem_start_last_seconds{{{labels}}}": 60,
        f"tandem_start_longest_seconds{{{labels}}}": 900,
        f"tandem_start_weights_gib_per_second{{{labels}}}": 0.5,
    }
    monkeypatch.setattr(phases, "kept", list)
    assert said(facts._starts(plans)) == {}
