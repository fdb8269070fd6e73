"""What a node tells the page of its past, asked of a real journal: one that another unit's crash loop fills."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.node.shipped import part

happened = part("exporter", "happened")

#: What writes a journal, and a library of its own.
PACKAGES = ("systemd-journal-remote", "libmicrohttpd12")
RESTARTS = "5eb03494b6584870a536b337290809b3"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages, unpacked; the test is skipped where they can't be had."""
    folder = tmp_path_factory.mktemp("packages")
    got = subprocess.run(["apt-get", "download", "-qq", *PACKAGES], cwd=folder, check=False, capture_output=True)
    if got.returncode:
        pytest.skip(f"apt has no {' and '.join(PACKAGES)} (`apt-get update`)")
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", str(package), str(folder / "x")], check=True)
    return folder / "x"


def journal(root: Path, folder: Path, lines: list[dict[str, object]]) -> Path:
    """A journal with these lines, the last of them now."""
    begun, text = int(time.time() * 1e6) - len(lines) * 1000, ""
    for number, line in enumerate(lines):
        fields = {"__REALTIME_TIMESTAMP": begun + number * 1000, "__MONOTONIC_TIMESTAMP": 10**6 + number * 1000}
        text += "".join(f"{name}={value}\n" for name, value in {**fields, "_BOOT_ID": "1" * 32, **line}.items()) + "\n"
    (folder / "export").write_text(text)
    program = next(root.glob("**/systemd/systemd-journal-remote"))
    libraries = ":".join(str(each.parent) for each in root.glob("**/libmicrohttpd.so.12"))
    argv = [str(program), "-o", str(folder / "of.journal"), str(folder / "export")]
    subprocess.run(argv, env={**os.environ, "LD_LIBRARY_PATH": libraries}, check=True, capture_output=True)
    return folder / "of.journal"


def test_the_newest_of_tandem_s_units_are_told_whatever_else_the_journal_is_full_of(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def restart(unit: str, what: object = "") -> dict[str, object]:
        return {"_PID": 1, "_SYSTEMD_UNIT": "init.scope", "UNIT": f"{unit}.service", "MESSAGE_ID": RESTARTS} | {
            "MESSAGE": f"restarts {what}"
        }

    old = [restart("stranger", number) for number in range(500)] + [restart("tandem-proxy", 0)] * 450
    canary = {"_PID": 7, "_SYSTEMD_UNIT": "tandem-canary.service", "MESSAGE": "tandem: sees nothing wrong"}
    engine = {"_PID": 8, "_SYSTEMD_UNIT": "tandem-engine.service", "MESSAGE": "INFO 200 OK"}
    new = [restart("tandem-engine-of-a-model"), canary, *[engine] * 500]
    file = journal(root, tmp_path, [*old, *new, *(restart("stranger", number) for number in range(500))])
    (tmp_path / "journalctl").write_text(f'#!/bin/sh\nexec /usr/bin/journalctl --file={file} "$@"\n')
    (tmp_path / "journalctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    told = [each["text"] for each in happened._journal()]
    assert told[:2] == ["tandem-canary: sees nothing wrong", "tandem-engine-of-a-model: restarts "]
    assert set(told[2:]) == {"tandem-proxy: restarts 0"} and len(told) == 400
