"""The lab's recipe as it loads: at once, or as slowly as a real model (`LAB_LOAD_S=600 make apply INVENTORY=...`)."""

from __future__ import annotations

import os

from operations.plan.recipes.formats import FOLDER
from tests.lab.settings import HOME
from tests.lab.shell import LabError

NAME = "lab-tiny-llama"


def recipe() -> str:
    """What the knob `recipe` is: the name of the shipped one, or the path of one that loads LAB_LOAD_S seconds longer.

    Raises LabError.
    """
    seconds = os.environ.get("LAB_LOAD_S", "")
    if not seconds:
        return NAME
    if not seconds.isdigit():
        raise LabError(f"LAB_LOAD_S is `{seconds}`: expected whole seconds, 600 for ten minutes")
    return slower(NAME, int(seconds))


def slower(name: str, seconds: int) -> str:
    """The path of a shipped recipe that may load so many seconds longer; one with an environment of its own does.

    The file keeps its name: the seconds stand in it, so another number is another plan.
    """
    path = HOME / f"loads-{seconds}-s" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    shipped = (FOLDER / f"{name}.yaml").read_text()
    minutes = next(line for line in shipped.splitlines() if line.startswith("load_minutes: "))
    longer = f"load_minutes: {float(minutes.split()[1]) + seconds / 60:g}"
    path.write_text(shipped.replace(minutes, longer).replace("\nenv:\n", f'\nenv:\n  LAB_LOAD_S: "{seconds}"\n'))
    return str(path)
