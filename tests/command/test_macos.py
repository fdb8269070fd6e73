"""The owner's side on a Mac, as far as that can be seen without one: a double of its Python (macos_double), a path with
what macOS has and BSD's ways, the words that its ssh says. pyinfra, the deploy and all of Tandem are the real ones.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from operations.command import origin
from operations.plan.recipes.images import Image
from operations.plan.recipes.mod_folder import content
from operations.runner import tether
from tests.command.test_origin import clone as clone
from tests.command.test_origin import installed as installed
from tests.deploy.fake import NAMES, fresh, inventory_of, planned
from tests.plan.samples import ROOT
from tests.support.command_line import HELP, clone_with_a_python_that_notes_what_it_is_asked, tandem

DOUBLE = Path(__file__).parent / "macos_double"
#: Of what macOS comes with (Xcode's command line tools have git and make): what these tests may start.
THERE = ("sh", "cat", "cp", "dirname", "mkdir", "touch", "ssh", "ssh-keygen", "ssh-keyscan", "ssh-add", "git")
#: As they are there: readlink takes -f since 12.3, the others never take these.
BSD = {"readlink": "-f", "sed": "--*", "date": "-d", "stat": "-c", "base64": "-w*", "xargs": "-r", "grep": "-P"}
#: An ssh's double: what a Spark says to look.sh, a machine of its own for each name.
LETS_IN = """
cat >/dev/null
for word; do case $word in *@*) spark=$word;; esac; done
printf 'tandem:host spark\\ntandem:id %s\\ntandem:mib 124610\\ntandem:disk 3500\\ntandem:sudo yes\\n' "$spark"
"""


@pytest.fixture
def mac(tmp_path: Path) -> dict[str, str]:
    """The environment of a Mac."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name in THERE:
        if there := shutil.which(name):
            (bin_ / name).symlink_to(there)
    for name, option in BSD.items():
        refuse = f'{option}) echo "{name}: illegal option -- $1" >&2; exit 1;;'
        program(bin_, name, f'case "$1" in {refuse} esac\nexec {shutil.which(name)} "$@"')
    notes = tmp_path / "notes"
    notes.touch()
    return {"PATH": str(bin_), "PYTHONPATH": f"{DOUBLE}:{ROOT}", "MACOS_NOTES": str(notes)}


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def started(mac: dict[str, str]) -> set[str]:
    """Programs that were started, by their names."""
    return set(Path(mac["MACOS_NOTES"]).read_text().split()) - {os.path.basename(sys.executable), "python"}


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        (["--help"], 0, HELP.read_text()),
        (["advise", "8 users chat"], 0, "Run "),
        (["init", "new", "--nodes", "127.0.0.1:1", "--user", "me", "--yes"], 3, "does not answer (connection refused)"),
        (["status"], 3, "no node answers"),
        (["rehearse"], 2, "rehearse: the lab is made of Linux's namespaces; type it on a Linux machine, as root"),
        (
            ["develop"],
            2,
            "help: make is not installed; install it: `apt install make`, on macOS `xcode-select --install`",
        ),
        (["bench"], 3, "bench: nodes: spark-1 does not answer"),
    ],
)
def test_what_is_typed_is_understood(mac: dict[str, str], off: Path, typed: list[str], code: int, said: str) -> None:
    done = tandem(off, *typed, more=mac)
    assert done.returncode == code and said in done.stdout + done.stderr, done.stderr
    assert "Traceback" not in done.stderr and started(mac) <= {*THERE, *BSD}


def test_a_folder_is_made(mac: dict[str, str], tmp_path: Path) -> None:
    program(tmp_path / "bin", "ssh", LETS_IN)
    nodes = ("--nodes", "192.168.1.41,192.168.1.42", "--user", "me")
    done = tandem(tmp_path, "init", "sparks", *nodes, "--for", "chat", "--reach", "home", "--yes", more=mac)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "sparks/inventory.py").is_file() and started(mac) == {"ssh"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "ssh: connect to host 192.168.1.41 port 22: No route to host",
            "allow it the local network (System Settings, ",
        ),
        ("ssh: connect to host 192.168.1.41 port 22: Operation timed out", "does not answer (timed out)"),
        ("ssh: Could not resolve hostname x: nodename nor servname provided, or not known", "nobody has the name"),
    ],
)
def test_the_words_of_its_ssh_are_told(mac: dict[str, str], tmp_path: Path, words: str, told: str) -> None:
    program(tmp_path / "bin", "ssh", f"cat >/dev/null; echo '{words}' >&2; exit 255")
    done = tandem(tmp_path, "init", "sparks", "--nodes", "192.168.1.41", "--user", "me", "--yes", more=mac)
    assert done.returncode == 3 and told in done.stdout, done.stdout


def test_a_deploy_runs(mac: dict[str, str], tmp_path: Path) -> None:
    plan = planned(topology="replicas")
    nodes = inventory_of(tmp_path, [fresh(plan, name) for name in NAMES])
    done = tandem(tmp_path, "apply", "topology=replicas", "--inventory", str(nodes), more=mac)
    assert done.returncode == 0 and "Engine | start" in done.stderr, done.stderr
    assert started(mac) == set()


def test_the_clone_s_command_finds_its_clone_with_a_readlink_that_has_no_f(mac: dict[str, str], tmp_path: Path) -> None:
    environment, notes = clone_with_a_python_that_notes_what_it_is_asked(tmp_path)
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/pip").touch()
    done = subprocess.run(
        [ROOT / "tandem", "status"], env={**environment, "PATH": mac["PATH"]}, cwd=tmp_path, capture_output=True
    )
    assert done.returncode == 0 and done.stderr.startswith(b"installing"), done.stderr
    assert f"-r {ROOT}/requirements.lock" in notes.read_text()


def test_a_bench_may_open_a_connection_for_each_user(mac: dict[str, str]) -> None:
    said = (
        "from resource import *; import bench.__main__ as bench; bench._open_more(); print(*getrlimit(RLIMIT_NOFILE))"
    )
    ran = subprocess.run([sys.executable, "-c", said], env={**os.environ, **mac}, capture_output=True, text=True)
    soft, hard = (int(each) for each in ran.stdout.split())
    assert soft == (9_000 if hard < 0 else min(hard, 9_000)), ran.stderr


def test_a_node_without_power_is_noticed_by_the_options_that_macos_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """netinet/tcp.h of macOS: TCP_KEEPALIVE 0x10, TCP_KEEPINTVL 0x101, TCP_KEEPCNT 0x102, TCP_RXT_CONNDROPTIME 0x80."""
    set_: dict[int, int] = {}

    class Sock:
        def setsockopt(self, level: int, option: int, value: int) -> None:
            if level == socket.IPPROTO_TCP:
                set_[option] = value

    client = SimpleNamespace(get_transport=lambda: SimpleNamespace(sock=Sock()))
    host: Any = SimpleNamespace(connector=SimpleNamespace(client=client))
    monkeypatch.setattr(sys, "platform", "darwin")
    for name in ("TCP_KEEPIDLE", "TCP_USER_TIMEOUT"):
        monkeypatch.delattr(socket, name)
    for name, number in {"TCP_KEEPALIVE": 0x10, "TCP_KEEPINTVL": 0x101, "TCP_KEEPCNT": 0x102}.items():
        monkeypatch.setattr(socket, name, number, raising=False)
    tether.quicken(host)
    assert set_ == {socket.TCP_NODELAY: 1, 0x10: 10, 0x101: 5, 0x102: 4, 0x80: 30}


def test_no_two_files_are_one_where_capitals_do_not_count() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    assert len({name.casefold() for name in tracked}) == len(tracked) > 0


def test_what_finder_leaves_in_a_folder_changes_nothing(clone: Path, installed: Path, tmp_path: Path) -> None:
    (clone / "operations/.DS_Store").write_bytes(b"\0\0\0\1Bud1")
    assert origin.check(installed) == []
    for name in ("Dockerfile", ".DS_Store"):
        (tmp_path / "mod").mkdir(exist_ok=True)
        (tmp_path / "mod" / name).write_text("FROM x\n")
    assert [name for name, _ in content(tmp_path / "mod")] == ["Dockerfile"]
    made = Image("proxy", "x", f"build:{os.path.relpath(tmp_path / 'mod', ROOT)}")
    assert [name for name, _ in made.build_files()] == ["Dockerfile"]
