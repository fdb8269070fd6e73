"""Makes a Python on Linux look like one on macOS, as far as that goes: loaded first, by PYTHONPATH.

What macOS's Python has not is gone (the modules' documentation says where each name is there), and so are /proc, /sys
and /run; a process may open 256 files. What is started goes into the file MACOS_NOTES. Kernel, file system and compiled
modules stay Linux's.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import socket
import sys
import sysconfig
import time
import types
from typing import Any

_LACKING = {
    os: "memfd_create eventfd pidfd_open setns unshare splice copy_file_range posix_fadvise posix_fallocate fdatasync "
    "pipe2 getrandom getresuid setresuid getxattr setxattr listxattr removexattr sched_getaffinity sched_setaffinity "
    "sched_setscheduler O_DIRECT O_PATH O_TMPFILE O_NOATIME",
    select: "epoll",
    signal: "sigwaitinfo sigtimedwait pidfd_send_signal SIGRTMIN SIGPWR SIGSTKFLT SIGPOLL",
    socket: "AF_NETLINK AF_VSOCK AF_PACKET SO_BINDTODEVICE SOCK_CLOEXEC SOCK_NONBLOCK MSG_NOSIGNAL TCP_KEEPIDLE "
    "TCP_USER_TIMEOUT TCP_QUICKACK",
    time: "CLOCK_BOOTTIME CLOCK_TAI",
}
_NOT_THERE = ("/proc", "/sys", "/run", "/dev/shm")
_stat, _lstat, _uname = os.stat, os.lstat, os.uname


def _hide(path: Any) -> None:
    text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
    if any(text == each or text.startswith(f"{each}/") for each in _NOT_THERE):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)


def _hook(event: str, given: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir"):
        _hide(given[0])
    elif event == "subprocess.Popen":
        with open(os.environ["MACOS_NOTES"], "a") as notes:
            notes.write(f"{os.path.basename(os.fsdecode(given[0]))}\n")


def _stat_there(path: Any, **given: Any) -> os.stat_result:
    _hide(path)
    return _stat(path, **given)


def _lstat_there(path: Any, **given: Any) -> os.stat_result:
    _hide(path)
    return _lstat(path, **given)


# How this Python was built lies in a module that has the system's name: read it while that is Linux.
sysconfig.get_config_vars()
# What the standard library has compiled in for a Mac alone: urllib asks it for proxies.
sys.modules["_scproxy"] = types.ModuleType("_scproxy")
sys.modules["_scproxy"].__dict__.update(_get_proxy_settings=dict, _get_proxies=dict)
for _module, _names in _LACKING.items():
    for _name in _names.split():
        if hasattr(_module, _name):
            delattr(_module, _name)
    # gevent takes what it names.
    if "__all__" in vars(_module):
        vars(_module)["__all__"] = [each for each in vars(_module)["__all__"] if hasattr(_module, each)]
os.stat, os.lstat = _stat_there, _lstat_there
os.uname = lambda: os.uname_result(("Darwin", _uname().nodename, "24.6.0", "Darwin Kernel Version 24.6.0", "arm64"))
sys.platform = "darwin"
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
sys.addaudithook(_hook)
