"""Debian's Prometheus and Alertmanager out of their packages, which are not installed: they would begin to serve."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from operations.plan.services.service import Program

PACKAGES = ("prometheus", "prometheus-alertmanager")
#: In a mount namespace of its own: what the programs look for in /usr/share is there.
_WITH_SHARE = (
    'mount -t tmpfs none /usr/share && mkdir /usr/share/prometheus && mount --bind "$0" /usr/share/prometheus && '
    'exec "$@"'
)


def unpacked(folder: Path) -> Path:
    """A folder with usr/bin and usr/share of both packages; the test is skipped where they can't be had."""
    if all(shutil.which(name) for name in (*PACKAGES, "amtool", "promtool")):
        return Path("/")
    if os.geteuid() != 0:
        pytest.skip("Prometheus' packages are not installed; unpacked ones need a mount of their own (root)")
    folder.chmod(0o755)
    for name in PACKAGES:
        got = subprocess.run(["apt-get", "download", "-qq", name], cwd=folder, check=False, capture_output=True)
        if got.returncode:
            pytest.skip(f"no {name} is here, and apt has none to take it from (`apt-get update`)")
        (package,) = folder.glob(f"{name}_*.deb")
        subprocess.run(["dpkg-deb", "--extract", str(package), str(folder / "x")], check=True)
    return folder / "x"


def command(root: Path, program: Program, places: Mapping[str, str]) -> list[str]:
    """The unit's own command line, with paths of a test's in the place of the node's."""
    (unit,) = [file.content for file in program.files if file.path.endswith(".service")]
    found = re.search(r"^ExecStart=((?:.*\\\n)*.*)", unit, re.MULTILINE)
    assert found
    line = found[1].replace("\\\n", " ").replace("/usr/bin/", f"{root}/usr/bin/")
    for ours, test in places.items():
        assert ours in line, (ours, line)
        line = line.replace(ours, test)
    words = shlex.split(line)
    if root == Path("/"):
        return words
    return ["unshare", "--mount", "sh", "-c", _WITH_SHARE, str(root / "usr/share/prometheus"), *words]


@contextmanager
def running(argv: list[str], log: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A program, from when it answers that it is ready."""
    with log.open("ab") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        process.wait(20)
