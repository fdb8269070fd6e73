"""`{config.NAME}` and `{launch.NAME}` in sparkrun's `env` (core/env_templates.py of sparkrun 0.4.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from operations.plan.config.refusal import Remark
from operations.wire import Json

_TEMPLATE = re.compile(r"(?<![${])\{(config|launch)\.([A-Za-z_]\w*)\}")


def filled(env: Mapping[str, Any], defaults: Mapping[str, Any], remarks: list[Remark]) -> Json:
    """The variables with `defaults` filled in; what only sparkrun's launch knows is an error."""
    found: Json = {}
    for name, value in env.items():
        found[name] = value
        if not isinstance(value, str) or not _TEMPLATE.search(value):
            continue
        found[name] = _TEMPLATE.sub(
            lambda each: str(defaults[each[2]]) if each[1] == "config" and each[2] in defaults else each[0], value
        )
        for each in _TEMPLATE.finditer(found[name]):
            problem = f"env `{name}` has `{each[0]}`, which sparkrun fills in at its launch"
            remarks.append(Remark(True, problem, "write its value"))
    return found
