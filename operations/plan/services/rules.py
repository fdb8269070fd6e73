"""The alarms that come with Tandem, of files/monitoring/rules.yml: what each says, what it means, what helps."""

from __future__ import annotations

import re
from typing import NamedTuple

import yaml

from operations.plan.config.files import as_is

#: An action of Prometheus' templates (text/template of Go).
_ACTION = re.compile(r"{{(.*?)}}", re.DOTALL)
_LABEL = re.compile(r"(?:with )?\$labels\.(\w+)")


class Alarm(NamedTuple):
    """Texts of an alarm, with `<name>` for what only a raised one knows. `means` is empty where `seen` says it."""

    seen: str
    means: str
    remedy: str


def alarms() -> dict[str, Alarm]:
    """Every alarm by its name, in the order of the rules."""
    found = yaml.safe_load(as_is("monitoring/rules.yml"))
    rules = [rule for group in found["groups"] for rule in group["rules"] if "alert" in rule]
    return {rule["alert"]: _texts(rule["annotations"]) for rule in rules}


def _texts(annotations: dict[str, str]) -> Alarm:
    return Alarm(*(_named(annotations.get(name, "")) for name in ("summary", "means", "next")))


def _named(template: str) -> str:
    """Its text. A label and a value become `<label>` and `<value>`; within `with` a dot is what is asked for there."""
    told, within = "", [""]
    for number, part in enumerate(_ACTION.split(template)):
        action = part.strip()
        label = _LABEL.match(action)
        name = label[1] if label else "value"
        if number % 2 == 0:
            told += part
        elif action.startswith("with "):
            within.append(name)
        elif action == "end":
            within.pop()
        else:
            told += f"<{within[-1] if action.startswith('.') else name}>"
    return told
