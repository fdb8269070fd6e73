"""What hangs or breaks off beside an exporter keeps no scrape waiting, and takes nothing else down."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from operations.node.monitoring import alarm_test
from tests.node.shipped import FILES, part
from tests.node.test_exporter import FakeEngine, answering, said
from tests.support.ports import free_port
from tests.support.serving import saying
from tests.support.waiting import until_it_listens

exporter, facts, machine, passed = (part("exporter", name) for name in ("exporter", "facts", "machine", "passed"))
#: Seconds that a scrape may take, whatever hangs; a browser's page gives a node five.
MOST_S = 5.0


def program(folder: Path, name: str, lines: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
    (folder / name).chmod(0o755)


def wanted(**changes: Any) -> Any:
    of = {"units": [], "store": "/", "rails": [], "floor_mib": 0, "starts": 5, "plans": [], "certificate": ""}
    return {"address": "127.0.0.1", "port": 0, "facts": of, "passed": {}, **changes}


def test_whatever_hangs_a_scrape_takes_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real program; nvidia-smi, systemctl, two engines and the proxy all hang."""
    beside = [FILES.parent / "operations/node" / each for each in ("door/speaking.py", "unit/phases.py")]
    for source in [*(FILES / "exporter").glob("*.py"), *beside]:
        shutil.copy(source, tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("nvidia-smi", "systemctl"):
        program(tmp_path / "bin", name, f"echo $$ >> {tmp_path}/{name}.asked\nexec sleep 30")
    port = free_port()
    with saying() as hung, answering(FakeEngine.body) as (engine, _):
        sources = {name: {"url": hung, "names": "vllm:"} for name in ("proxy", "engine-a", "engine-b")}
        sources["engine-c"] = {"url": engine, "names": "vllm:"}
        (tmp_path / "exporter.json").write_text(json.dumps(wanted(port=port, passed=sources)))
        environment = {**os.environ, "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
        process = subprocess.Popen([sys.executable, "-B", str(tmp_path / "exporter.py"), "x"], env=environment)
        try:
            until_it_listens(port)
            took = []
            for _ in range(4):
                began = time.monotonic()
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                    found = answer.read().decode()
                took.append(time.monotonic() - began)
                time.sleep(1.1)
            assert max(took) < MOST_S, took
            assert "\ntandem_gpu_answers 0.0\n" in found and 'vllm:x{model="m"} 7' in found, found
            assert "\ntandem_memory_available_bytes " in found
            for name in ("proxy", "engine-a", "engine-b"):
                assert f'tandem_source_up{{source="{name}"}} 0.0' in found
            # One is asked, and no second one beside it or soon behind it.
            assert len((tmp_path / "nvidia-smi.asked").read_text().split()) == 1
        finally:
            process.kill()
            process.wait()
            for name in ("nvidia-smi", "systemctl"):
                for number in (tmp_path / f"{name}.asked").read_text().split():
                    if Path(f"/proc/{number}/comm").exists() and "sleep" in Path(f"/proc/{number}/comm").read_text():
                        os.kill(int(number), 9)


def test_an_nvidia_smi_that_can_t_be_ended_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that waits for its driver, whom no signal reaches."""
    program(tmp_path, "nvidia-smi", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    go_on, asked = threading.Event(), []

    def stuck() -> list[Any]:
        asked.append(1)
        go_on.wait(20)
        return []

    monkeypatch.setattr(machine, "_asked", stuck)
    smi = machine.Smi()
    began = time.monotonic()
    assert said(smi.samples()) == {}
    assert time.monotonic() - began < machine.SMI_WAIT_S + 5
    monkeypatch.setattr(machine, "SMI_S", 0.1)
    for _ in range(3):
        began = time.monotonic()
        assert said(smi.samples()) == {"tandem_gpu_answers": 0.0}
        assert time.monotonic() - began < machine.SMI_WAIT_S
    go_on.set()
    assert asked == [1]


def test_a_failure_of_nvidia_smi_is_remembered_for_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "nvidia-smi", f"echo x >> {tmp_path}/asked\nexit 9")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(machine, "SMI_PAUSE_S", 0.0)
    smi = machine.Smi()
    for _ in range(3):
        assert said(smi.samples()) == {"tandem_gpu_answers": 0.0}
    assert (tmp_path / "asked").read_text() == "x\n"
    program(tmp_path, "nvidia-smi", "echo '0, 2281, [N/A], 62, 96'")
    monkeypatch.setattr(machine, "SMI_FAILED_S", 0.0)
    smi = machine.Smi()
    found = said(smi.samples())
    assert found["tandem_gpu_answers"] == 1 and len(found) == 4


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
BROKEN = {
    "half of what was promised": (HEAD + b"Content-Length: 900\r\n\r\nvllm:x 1\n",),
    "half a chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\nvllm:x 1\n",),
    "no chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nvllm:x 1\n",),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n",),
    "a line without end": (HEAD + b"X: " + b"x" * 70_000,),
    "nothing": (b"",),
}


@pytest.mark.parametrize("pieces", BROKEN.values(), ids=[*BROKEN])
def test_an_answer_that_is_none_takes_only_itself_down(pieces: tuple[bytes, ...]) -> None:
    with saying(*pieces) as broken, answering(FakeEngine.body) as (engine, _):
        sources = {"engine-a": {"url": broken, "names": "vllm:"}, "engine-b": {"url": engine, "names": "vllm:"}}
        found = exporter.Exporter(wanted(passed=sources)).text().decode()
    assert 'tandem_source_up{source="engine-a"} 0.0' in found and 'tandem_source_up{source="engine-b"} 1.0' in found
    assert 'vllm:x{model="m"} 7' in found and "vllm:x 1" not in found


@pytest.mark.parametrize("where", ["in its head", "in its body"])
def test_an_answer_that_drips_is_waited_for_no_longer_than_another(where: str) -> None:
    """Each piece comes in time."""
    head = HEAD if where == "in its head" else HEAD + b"\r\n"
    with saying(head, *[b"x"] * 200, pause_s=0.1) as dripping:
        made = exporter.Exporter(wanted(passed={"engine": {"url": dripping, "names": "vllm:"}}))
        began = time.monotonic()
        found = made.text().decode()
        assert time.monotonic() - began < MOST_S
    assert 'tandem_source_up{source="engine"} 0.0' in found


def test_what_the_environment_says_of_proxies_is_not_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    # urllib looks there once, and keeps what it has seen.
    monkeypatch.setattr(urllib.request, "_opener", None)
    with answering(FakeEngine.body) as (engine, _):
        assert said(passed.on("engine", engine, "vllm:").samples) == {'tandem_source_up{source="engine"}': 1.0}


def test_nor_by_a_test_alarm_on_its_way_to_this_node_s_alertmanager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setattr(urllib.request, "_opener", None)
    line = b'alertmanager_notifications_total{integration="email"} 3\n'
    with answering(line) as (url, _):
        assert alarm_test._counts(url.removesuffix("/metrics")) == {("notifications_total", "email"): 3.0}


def test_a_lock_of_another_disk_s_file_is_none_of_a_deploy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, locks = tmp_path / "lock", tmp_path / "locks"
    lock.touch()
    monkeypatch.setattr(facts, "LOCK", lock)
    monkeypatch.setattr(facts, "LOCKS", locks)
    here = lock.stat()
    for device, held in ((here.st_dev, 1.0), (os.makedev(os.major(here.st_dev), os.minor(here.st_dev) + 1), 0.0)):
        at = f"{os.major(device):02x}:{os.minor(device):02x}:{here.st_ino}"
        locks.write_text(f"1: FLOCK  ADVISORY  WRITE 77 {at} 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 78 {at} 0 EOF\n")
        assert said(facts._deploy()) == {"tandem_deploy_under_way": held}


def test_what_a_dead_canary_has_left_is_not_told_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "RUN", tmp_path)
    file = tmp_path / "canary.json"
    seen = {"rails": ["x"], "away": {"spark-2": "x"}, "works": ["engine"], "problems": {"engine": "x"}}
    file.write_text(json.dumps({**seen, "killed": {"engine": "2026-11-24 03:00:00 no sign of life"}}))
    assert len(said(facts._canary())) == 5
    old = time.time() - 70
    os.utime(file, (old, old))
    (left,) = said(facts._canary())
    assert left.startswith("tandem_killed_timestamp_seconds")


def test_when_a_unit_was_started_does_not_depend_on_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = "Id=tandem-engine.service\nLoadState=loaded\nActiveState=active\nNRestarts=0\n"
    program(tmp_path, "systemctl", f"cat <<'END'\n{entered}ActiveEnterTimestampMonotonic=1234567890\nEND")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    name = 'tandem_unit_active_after_boot_seconds{unit="tandem-engine"}'
    before = said(facts._units(["tandem-engine"], 5, {}))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    after = said(facts._units(["tandem-engine"], 5, {}))
    assert before[name] == after[name] == 1234.56789
    since = 'tandem_unit_active_since_seconds{unit="tandem-engine"}'
    assert after[since] - before[since] == pytest.approx(3600, abs=2)
