"""The lab's recipes, with longer loads: as long as a real model's (`LAB_LOAD_S=600 make apply INVENTORY=...`), or as an
engine's on an emulated machine.
"""

from __future__ import annotations

import os
from typing import Any

import yaml

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
    # They stand in the file, so another number is another plan.
    return longer(NAME, int(seconds), env=_shipped(NAME)["env"] | {"LAB_LOAD_S": seconds})


def longer(name: str, seconds: int, **changes: object) -> str:
    """The path of a shipped recipe that may load so many seconds longer; `changes`: what else of it is other.

    The file keeps its name.
    """
    path = HOME / f"loads-{seconds}-s" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    shipped = _shipped(name)
    data = {**shipped, "load_minutes": shipped["load_minutes"] + seconds / 60, **changes}
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return str(path)


def _shipped(name: str) -> dict[str, Any]:
    data = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    assert isinstance(data, dict)
    return data
