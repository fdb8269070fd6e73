"""What owners set on this hardware: a cap of the GPU's clock, no swap, and memory that the kernel keeps free.

Nothing of it is set unless the owner says so; what each is worth, and who says it: [Z] in docs/sources.md.
"""

from __future__ import annotations

from operations.paths import folder_of, unit_file
from operations.plan.config.files import File, render
from operations.plan.config.kind import Findings, Kind
from operations.plan.config.knobs import Knobs
from operations.plan.services.contract import Contract, Removal, Start
from operations.plan.services.service import Program, seal_program
from operations.wire.look import Survey

TUNING = "tandem-tuning"
#: What owners cap a GB10's clock at, MHz ([Z], [L]).
USUAL = "2000 to 2200"
#: Of what `vm.min_free_kbytes` is raised by, how much MemAvailable is less: the high watermark is half above it (Linux,
#: mm/page_alloc.c), and 6.2 GiB were seen for 4 ([Y]).
KEPT = 1.5
NO_CLOCK = Kind(
    "gpu-no-clock-to-cap",
    "gpu_clock_mhz={mhz}, and nvidia-smi tells of no GPU here",
    remedy="set it to 0, or see that nvidia-smi works",
)
OTHER_CLOCKS = Kind(
    "gpu-clock-out-of-range",
    "gpu_clock_mhz={mhz}: its GPU has {range}",
    remedy=f"set it to one of these (owners of a GB10: {USUAL}), or to 0: no cap",
)


def tuning(knobs: Knobs) -> Program | None:
    """The unit that sets it at each boot; None: nothing is to be set."""
    if not (knobs.gpu_clock_mhz or knobs.swap == "off" or knobs.min_free_kbytes):
        return None
    folder = folder_of(TUNING)
    script = render(
        "tuning/tuning.sh.j2",
        clock=knobs.gpu_clock_mhz,
        no_swap=knobs.swap == "off",
        min_free=knobs.min_free_kbytes,
    )
    unit = render("tuning/tandem-tuning.service.j2", folder=folder)
    return seal_program(TUNING, [File(f"{folder}/tuning.sh", script, "755"), File(unit_file(TUNING), unit)])


def check(survey: Survey, knobs: Knobs) -> Findings:
    """A clock that the node's GPU does not have. What nvidia-smi does not tell refuses nothing."""
    clocks = survey.get("clocks")
    if not knobs.gpu_clock_mhz or clocks is None:
        return
    lowest, highest = clocks["lowest_mhz"], clocks["highest_mhz"]
    if not clocks["gpus"]:
        yield NO_CLOCK.said(mhz=knobs.gpu_clock_mhz)
    elif highest and not (lowest or 0) <= knobs.gpu_clock_mhz <= highest:
        has = f"{lowest:.0f} to {highest:.0f} MHz" if lowest else f"{highest:.0f} MHz at most"
        yield OTHER_CLOCKS.said(mhz=knobs.gpu_clock_mhz, range=has)


def kept_gib(survey: Survey, knobs: Knobs) -> float:
    """GiB by which less memory will be available, once the kernel keeps more free than it does now, and what is swapped
    out is back.
    """
    memory = survey["memory"]
    more = knobs.min_free_kbytes - memory.get("min_free_kib", 0) if knobs.min_free_kbytes else 0
    swapped_kib = memory.get("swapped_kib", 0) if knobs.swap == "off" else 0
    return (KEPT * max(more, 0) + swapped_kib) / 2**20


SERVICE = Contract(
    (TUNING,),
    lambda its: [tuning(its.knobs)],
    Start.SETTING,
    removal=Removal.AFTER_ENGINES,
    failure="gpu_clock_mhz, swap or min_free_kbytes can not be set here",
)
