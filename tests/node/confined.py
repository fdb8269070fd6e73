"""What the container of HAProxy or of a LiteLLM has, for the real programs in a test: their user without a capability,
and nothing to write to but what is named. The kernel's parts are set as Docker sets them; the container itself is
looked at in tests/e2e. Who tests without being root gets none of it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from operations.paths import PROXY_USER
from tests.bench.routing import doors

IS_ROOT = os.geteuid() == 0
_RIGHTS = "--clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs"
_BECOME = f'export HOME=/tmp && exec setpriv --reuid {PROXY_USER} --regid {PROXY_USER} {_RIGHTS} "$@"'


@contextmanager
def place(otherwise: Path) -> Iterator[Path]:
    """A folder that the proxy's user can reach: below /tmp it has another one, and pytest's are root's alone."""
    if not IS_ROOT:
        yield otherwise
        return
    folder = Path(tempfile.mkdtemp(prefix="tandem-test-", dir="/run"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class Ends(Protocol):
    """What has to be ended."""

    def end(self) -> None: ...


Made = TypeVar("Made", bound=Ends)


@contextmanager
def placed(make: Callable[[Path], Made], otherwise: Path) -> Iterator[Made]:
    """What is made in a `place`, until it is ended behind the body."""
    with place(otherwise) as folder:
        made = make(folder)
        try:
            yield made
        finally:
            made.end()


def owned(*folders: Path) -> None:
    """Folders that are the proxy's user's alone, with all that is in them."""
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        if IS_ROOT:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, PROXY_USER, PROXY_USER)


def behind(folder: Path, *writes: Path, python: Path | None = None) -> list[str]:
    """What stands before a command line, whose process becomes the program: of `folder` it writes to `writes` alone,
    which have to be there. `python`: the program's own, where it has one, wherever that lies.
    """
    if not IS_ROOT:
        return []
    # Its environment, and what that is made of.
    needs = (python.parents[1], python.resolve().parents[1]) if python else ()
    disk = [f"mount --bind {_quote(path)} {_quote(path)}" for path in (folder, *writes)]
    disk += ["mount -o remount,bind,ro /", f"mount -o remount,bind,ro {_quote(folder)}"]
    # Where it was may not be there any more, or be below a folder of root's alone.
    is_there = f'setpriv --reuid {PROXY_USER} --regid {PROXY_USER} --clear-groups test -x "$PWD"'
    disk.append(f'{{ {{ {is_there} && cd "$PWD" 2>/dev/null; }} || cd /; }}')
    return ["unshare", "--mount", "sh", "-c", " && ".join([*_reachable(needs), *disk, _BECOME]), "sh"]


def _reachable(needs: Sequence[Path]) -> Iterator[str]:
    """A /tmp of its own, and what is needed where it was: the same /tmp would hide it, and a folder that is root's
    alone (its home) keeps it from others.
    """
    covers = {Path("/tmp"): "mount -t tmpfs -o nosuid,nodev,noexec,mode=1777,size=64m tmpfs /tmp"}
    below = []
    for path in needs:
        cover = next((each for each in reversed(path.parents) if each == Path("/tmp") or not _is_open(each)), None)
        if cover is not None:
            below.append(path)
            covers.setdefault(cover, f"mount -t tmpfs -o mode=755 tmpfs {_quote(cover)}")
    yield "umask 022 && mount -t tmpfs tmpfs /mnt"
    for number, path in enumerate(below):
        yield f"mkdir /mnt/{number} && mount --bind {_quote(path)} /mnt/{number}"
    yield from covers.values()
    for number, path in enumerate(below):
        yield f"mkdir -p {_quote(path)} && mount --move /mnt/{number} {_quote(path)}"


def _is_open(folder: Path) -> bool:
    """Whether anybody may pass it."""
    return bool(folder.stat().st_mode & 0o001)


def _quote(path: Path) -> str:
    """As a shell wants it."""
    return shlex.quote(str(path))


def contained(home: Path, used: Path) -> list[str]:
    """What stands before the real LiteLLM's command line, by its folder and the one that it writes to."""
    owned(used)
    return behind(home, used, python=doors.LITELLM.parent / "python3")
