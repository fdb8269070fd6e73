"""What a node says of Prometheus and Alertmanager, without them: addresses, sizes, refusals."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operations.node.monitoring import monitors
from operations.paths import ALERTMANAGER, PROMETHEUS
from tests.node.page_doubles import Double
from tests.plan.samples import plan


def put_units(folder: Path, **knobs: Any) -> None:
    head = plan(2, topology="replicas", monitoring="prometheus", **knobs).head
    for program in (head.services[PROMETHEUS], head.services[ALERTMANAGER]):
        assert program
        unit = next(file for file in program.files if file.path.endswith(".service"))
        (folder / Path(unit.path).name).write_text(unit.content)


def test_one_that_listens_on_the_fabric_is_asked_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitors, "UNIT_FILES", tmp_path)
    put_units(tmp_path)
    assert monitors.address_of(PROMETHEUS) == "192.168.177.11:8021"
    assert monitors.address_of(ALERTMANAGER) == "127.0.0.1:8022"
    ready = Double({"/-/ready": lambda: "ok"})
    unit = tmp_path / f"{PROMETHEUS}.service"
    # An address of this machine's that is not 127.0.0.1.
    unit.write_text(unit.read_text().replace("192.168.177.11:8021", f"localhost:{ready.server_port}"))
    try:
        assert monitors.problem(PROMETHEUS, 2) == ""
    finally:
        ready.end()
    assert "refused" in monitors.problem(PROMETHEUS, 2)
    unit.unlink()
    assert monitors.problem(PROMETHEUS, 2) == "its unit is not here"


def test_what_goes_while_it_is_counted_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("block-1", "block-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "chunks").write_bytes(b"x" * 10_000)
    whole, scan = monitors.kept(tmp_path), os.scandir
    assert whole >= 20_000

    def scan_late(path: Any) -> Iterator[os.DirEntry[str]]:
        if str(path).endswith("block-1"):
            shutil.rmtree(path, ignore_errors=True)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scan_late)
    assert 0 < monitors.kept(tmp_path) < whole
    assert monitors.kept(tmp_path / "none") == 0


def test_a_name_server_that_says_nothing_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitors, "HEARD_S", 0.5)

    def silence(*_: Any) -> list[Any]:
        time.sleep(20)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", silence)
    began = time.monotonic()
    receivers: Any = [{"kind": "webhook", "to": f"http://{name}/...", "host": name, "port": 80} for name in ("a", "b")]
    assert monitors.silent(receivers) == [f"webhook http://{name}/...: no answer in time" for name in ("a", "b")]
    assert time.monotonic() - began < 10


def test_what_apt_refused_is_asked_of_it_again_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "no-packages"
    monkeypatch.setattr(monitors, "REFUSED", mark)
    assert not monitors.refused(tmp_path)
    mark.write_text("prometheus prometheus-alertmanager\n")
    assert monitors.refused(tmp_path)
    # One is there by now.
    (tmp_path / "prometheus").touch()
    assert monitors.refused(tmp_path)
    for age, is_refused in ((86_000, True), (87_000, False), (-3600, False)):
        os.utime(mark, (time.time() - age,) * 2)
        assert monitors.refused(tmp_path) == is_refused
    # Another one was asked for.
    mark.write_text("prometheus\n")
    assert not monitors.refused(tmp_path)
