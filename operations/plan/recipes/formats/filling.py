"""A command's placeholders filled from `defaults`, and a word about each name that has no value or no use."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from operations.plan.config.refusal import Remark, nearest

Fill = Callable[[str, Mapping[str, Any]], tuple[str, list[str]]]
#: How like a known name another has to be to be taken for its misspelling.
_NEAR = 0.8
#: Names that have their use without a placeholder: the plan says them, or a tool reads them by name.
_USED_ANYWAY = ("model", "host", "port", "tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")


def filled(
    command: str,
    defaults: Mapping[str, Any],
    given: Mapping[str, Any],
    fill: Fill,
    remarks: list[Remark],
    used_anyway: Collection[str] = (),
) -> str:
    """The command. `given`: values beside `defaults`, which win; `used_anyway`: names that need no placeholder."""
    text, missing = fill(command, {**given, **defaults})
    for name in dict.fromkeys(missing):
        remedy = nearest(name, defaults, f"add `{name}` to `defaults`", _NEAR)
        remarks.append(Remark(True, f"`{{{name}}}` in the command has no default", remedy))
    for name in dict.fromkeys(re.findall(r"\$\{([A-Za-z_][\w-]*)\}", command)):
        if name in defaults:
            problem = f"`${{{name}}}` in the command is a variable of the shell, not the default `{name}`"
            remarks.append(Remark(True, problem, f"write `{{{name}}}`"))
    # A default may be used by another one.
    everything = " ".join([command, *(str(each) for each in defaults.values() if isinstance(each, str))])
    places = dict.fromkeys(re.findall(r"\{([A-Za-z_][\w-]*)[}:!]", everything))
    idle = [name for name in defaults if name not in places and name not in (*_USED_ANYWAY, *used_anyway)]
    for name in idle:
        remedy = nearest(name, places, "", _NEAR)
        problem = f"`{name}` under `defaults` is used by no placeholder of the command: it has no effect"
        remarks.append(Remark(False, problem, remedy or f"remove it, or write `{{{name}}}` where it belongs"))
    return text
