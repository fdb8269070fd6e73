"""By which lines of an engine's log its start is known: marks as data, which each engine's class has (`STARTS`).

A start has the phases `container` (it is made), `meeting` (it waits for other ranks or for its turn), `imports` (mods,
programs, devices, the ranks' communication), `weights`, `compile`, `autotune`, `graphs`, `warm-up`
(memory measured, KV cache, what is left) and `server`. operations/node/unit/phases.py says how marks are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from operations.wire.starts import Mark as Told

#: What start.sh says when the container runs, and the loader's program when it has chosen (files/engine/loader.py).
RUNS, LOADS_BY = "tandem: the container runs", "tandem: the weights are loaded by"
#: How it says that one has failed, and that the engine's own way is taken.
FALLS_BACK = rf"^{LOADS_BY} engine, its own way: [\w-]+ failed on "
#: Times the longest of the last starts that a deploy waits.
TIMES = 2


@dataclass(frozen=True)
class Mark:
    """A line that ends a phase: `pattern`, with a group `s` where it says what the phase took (seconds), `gib` where it
    says how much was loaded. `was`: the phase that has passed, where it is not the one before; `then`: the next one.
    """

    pattern: str
    was: str = ""
    then: str = ""


#: What Tandem's own programs say, in any engine's container (files/engine/meet.py, start.sh).
OWN = (
    Mark(r"^tandem: (?:waiting for \d+ more rank|rank 0 (?:at|is there))", then="meeting"),
    Mark(f"^{RUNS}", then="imports"),
    Mark(rf"^{LOADS_BY} (?P<loader>[\w-]+)"),
)
#: FlashInfer's, which every engine here uses (flashinfer/autotuner.py, 0.5 to 0.7; TensorRT-LLM has its like).
AUTOTUNER = (
    Mark(r"\[Autotuner\]:? Autotuning process starts", then="autotune"),
    Mark(r"\[Autotuner\]:? Autotuning process ends", was="autotune", then="warm-up"),
)


def told(marks: Iterable[Mark]) -> list[Told]:
    """The marks of an engine behind Tandem's own, as a node is told them."""
    found: list[Told] = []
    for mark in (*OWN, *marks):
        each: Told = {"pattern": mark.pattern}
        if mark.was:
            each["was"] = mark.was
        if mark.then:
            each["then"] = mark.then
        found.append(each)
    return found


def patience_s(load_minutes: float, specs: Sequence[str], longest: Sequence[Mapping[str, float]]) -> float:
    """Seconds that a start may take: twice the longest of the last starts of this same plan on any of its nodes, and
    never less than what the recipe says, `load_minutes`: with less in its caches a start takes longer.

    `specs`: of the engine on each of its nodes; `longest`: what each of these nodes keeps, spec -> seconds.
    """
    known = [of[spec] for spec, of in zip(specs, longest, strict=True) if spec in of]
    return max([TIMES * each for each in known] + [load_minutes * 60])
