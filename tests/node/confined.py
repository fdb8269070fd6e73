"""What the container of HAProxy or of a LiteLLM has, for the real programs in a test: their user without a capability,
and nothing to write to but what is named. The kernel's parts are set as Docker sets them; the container itself is
looked at in tests/e2e. Who tests without being root gets none of it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from operations.plan.places import PROXY_USER
from tests.bench.routing import doors

IS_ROOT = os.geteuid() == 0
_RIGHTS = "--clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs"
#: A Python in root's home can be run by nobody else: it is there alone then. {0}: where it is.
_PYTHON = (
    "mount -t tmpfs tmpfs /mnt && case {0} in /root/*) mkdir /mnt/p && mount --bind {0} /mnt/p"
    " && mount -t tmpfs -o mode=755 tmpfs /root && mkdir -p {0} && mount --move /mnt/p {0};; esac"
)
_DISK = (
    "mount -t tmpfs -o nosuid,nodev,noexec,size=64m tmpfs /tmp && mount --bind {0} {0}"
    "{1} && mount -o remount,bind,ro / && mount -o remount,bind,ro {0}"
)
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
    which have to be there. `python`: the program's own, where it has one.
    """
    if not IS_ROOT:
        return []
    home = python.resolve().parents[1] if python else Path("/nowhere")
    each = "".join(f" && mount --bind {shlex.quote(str(path))} {shlex.quote(str(path))}" for path in writes)
    disk = _DISK.format(shlex.quote(str(folder)), each)
    script = f"{_PYTHON.format(shlex.quote(str(home)))} && {disk} && {_BECOME}"
    return ["unshare", "--mount", "sh", "-c", script, "sh"]


def contained(home: Path, used: Path) -> list[str]:
    """What stands before the real LiteLLM's command line, by its folder and the one that it writes to."""
    owned(used)
    return behind(home, used, python=doors.LITELLM.parent / "python3")
