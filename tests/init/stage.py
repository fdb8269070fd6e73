"""A stage for `tandem init`: a laptop and factory Sparks with a real sshd each, and somebody who types."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
#: `me` with the password `sesame`, as at a Spark's first start.
_HASH = "$5$tandemtest$Mt8H7mAsUfCotXrDvWwh/2tykjGl4zSOAhdU5n.cUr3"
#: Seconds until what is waited for must have been said: a slow machine with others on it.
PATIENCE_S = 90
#: A word that ends a wait for a question with Ctrl-C, or with the end of the input.
CTRL_C, CTRL_D = "\x03", "\x04"


@dataclass(frozen=True)
class Ran:
    """What was seen on the terminal, and the exit code."""

    text: str
    code: int


class Stage:
    """Files of the laptop and of nodes in one folder; each run plays it anew."""

    def __init__(self, place: Path, nodes: Sequence[str] = ("spark-1", "spark-2"), password: str = _HASH) -> None:
        self.place, self.nodes = place, nodes
        place.chmod(0o755)
        etc = place / "etc"
        etc.mkdir()
        (place / "home").mkdir()
        laptop = place / "laptop"
        users = (f"root:x:0:0:root:{laptop}:/bin/sh", f"me:x:4711:4711::{place}/home:/bin/sh")
        (etc / "passwd").write_text("\n".join((*users, "sshd:x:105:65534::/run/sshd:/bin/false", "")))
        (etc / "shadow").write_text(f"root:*:19000::::::\nme:{password}:19000::::::\nsshd:*:19000::::::\n")
        (etc / "shadow").chmod(0o600)
        (etc / "hosts").write_text("127.0.0.1 localhost\n")
        for name in ("sudo", "visudo"):
            shutil.copy(HERE / f"{name}_double", etc / name)

    @property
    def folder(self) -> Path:
        """The owner's folder, as the tests name it."""
        return self.place / "sparks"

    def resolve(self) -> None:
        """From now on the laptop knows the nodes' names, as with Avahi."""
        lines = [f"10.77.0.{11 + index} {name}.local\n" for index, name in enumerate(self.nodes)]
        (self.place / "etc/hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))

    def let_in(self, sudo: bool = True) -> None:
        """As after all mends: the laptop's key on each node, their host keys known."""
        key = self.place / "laptop/.ssh/id_ed25519"
        key.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        known = ""
        for index, name in enumerate(self.nodes):
            folder = self.place / name
            (folder / "home/.ssh").mkdir(parents=True)
            (folder / "sudoers.d").mkdir()
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True)
            host_key = " ".join((folder / "key.pub").read_text().split()[:2])
            known += f"{name}.local,10.77.0.{11 + index} {host_key}\n"
            shutil.copy(key.with_suffix(".pub"), folder / "home/.ssh/authorized_keys")
            if sudo:
                (folder / "sudoers.d/tandem-me").write_text("me ALL=(ALL) NOPASSWD: ALL\n")
        (key.parent / "known_hosts").write_text(known)

    def run(
        self, *words: str, typed: Sequence[tuple[str, str]] = (), cwd: Path | str | None = None, **environment: str
    ) -> Ran:
        """`tandem init WORDS` at a terminal. `typed`: (what is waited for, what is typed then)."""
        argv = self._argv(words)
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(cwd or self.place)
            os.execvpe(argv[0], argv, {**os.environ, **_environment(environment)})
        try:
            text = _type(terminal, typed)
        finally:
            os.close(terminal)
            try:
                os.kill(child, signal.SIGHUP)
            except ProcessLookupError:
                pass
            _, status = os.waitpid(child, 0)
        return Ran(text, os.waitstatus_to_exitcode(status))

    def _argv(self, words: Sequence[str]) -> list[str]:
        # With the namespace of processes all that the stage has started ends.
        spaces = ["unshare", "-n", "-m", "-p", "-f", "--kill-child", "--mount-proc", "--propagation", "private"]
        played = ["sh", str(HERE / "stage.sh"), str(self.place), " ".join(self.nodes)]
        return [*spaces, *played, sys.executable, "-m", "operations.command", "init", *words]

    def pipe(self, *words: str, **environment: str) -> Ran:
        """The same without a terminal."""
        ran = subprocess.run(
            self._argv(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **_environment(environment)},
            cwd=self.place,
            timeout=PATIENCE_S,
        )
        return Ran(ran.stdout, ran.returncode)


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    return {
        "SSHD": SSHD or "",
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "RESPONDER": str(HERE / "responder.py"),
        "TERM": "dumb",
        "COLUMNS": "160",
        **more,
    }


def _type(terminal: int, typed: Sequence[tuple[str, str]]) -> str:
    text, left, since = "", list(typed), 0
    until = time.monotonic() + PATIENCE_S
    while True:
        if left and (found := re.search(left[0][0], text[since:])):
            since += found.end()
            time.sleep(0.1)
            said = left.pop(0)[1]
            os.write(terminal, said.encode() if said in (CTRL_C, CTRL_D) else f"{said}\n".encode())
        ready, _, _ = select.select([terminal], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise AssertionError(f"nothing came for {PATIENCE_S} s, waiting for {left[:1]}:\n{text}")
        try:
            more = os.read(terminal, 65536)
        except OSError:
            more = b""
        if not more:
            assert not left, f"it ended before {left[0][0]!r}:\n{text}"
            return text
        text += more.decode(errors="replace").replace("\r\n", "\n")
