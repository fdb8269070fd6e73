"""Puts the image's system NCCL in the place of the one in torch's wheel: `nccl.py [WHEEL'S SYSTEM'S]`, two paths.

torch opens the wheel's file by its path, and vLLM whatever is loaded already: so one link is for both. Exit 1, with one
line, where it can't be done: an engine that is to have the system's must not start with the wheel's.
"""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import sys

NAME = "libnccl.so.2"
#: Debian's and Ubuntu's folders for libraries, whatever the architecture.
SYSTEM = "/usr/lib/*-linux-gnu/" + NAME


def main(arguments: list[str]) -> int:
    """Says what was done, in the line that the deploy looks for."""
    wheel, system = arguments or (wheels(), "".join(glob.glob(SYSTEM)[:1]))
    for whose, path, where in (("wheel", wheel, "nvidia.nccl"), ("system", system, SYSTEM)):
        if not path or not os.path.exists(path):
            print(f"NCCL: the {whose} has none in this image ({path or where}); set nccl in the recipe to wheel")
            return 1
    instead = version(wheel)
    try:
        aside = f"{wheel}.new"
        if os.path.lexists(aside):
            os.unlink(aside)
        os.symlink(os.path.realpath(system), aside)
        os.replace(aside, wheel)
    except OSError as error:
        print(f"NCCL: the system's can't stand for the wheel's: {error}; set nccl in the recipe to wheel")
        return 1
    print(f"NCCL: the system's {os.path.realpath(wheel)} stands for the wheel's: {version(system)} for {instead}")
    return 0


def wheels() -> str:
    """The wheel's library; empty: there is none."""
    try:
        spec = importlib.util.find_spec("nvidia.nccl")
    except ImportError:
        return ""
    places = list(spec.submodule_search_locations or []) if spec else []
    return os.path.join(places[0], "lib", NAME) if places else ""


def version(path: str) -> str:
    """What a library says of itself: `2.28.9`; `?` where it can't be loaded."""
    number = ctypes.c_int()
    try:
        ctypes.CDLL(path).ncclGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return "?"
    return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
