"""Prometheus' text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

#: Before each name of ours.
PREFIX = "tandem_"


@dataclass(frozen=True)
class Sample:
    """A value. `name` without its prefix; one that ends with _total only grows."""

    name: str
    help: str
    value: float
    labels: dict[str, str] = field(default_factory=dict)


def rendered(samples: Iterable[Sample]) -> str:
    """All of them: those of one name together, as the format wants it."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    return "".join(line for name in by_name for line in _family(by_name[name]))


def _family(samples: list[Sample]) -> Iterable[str]:
    name, kind = f"{PREFIX}{samples[0].name}", "counter" if samples[0].name.endswith("_total") else "gauge"
    yield f"# HELP {name} {samples[0].help}\n# TYPE {name} {kind}\n"
    for sample in samples:
        labels = ",".join(f'{key}="{quoted(value)}"' for key, value in sample.labels.items())
        value = repr(float(sample.value))
        yield f"{name}{{{labels}}} {value}\n" if labels else f"{name} {value}\n"


def quoted(value: str) -> str:
    """As it stands between a label's quotes."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
