"""What a GPU's clock, power and heat say. Figures of a GB10: docs/sources.md."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from operations.plan.config.kind import Kind
from operations.plan.doctor.symptom import BAD, REMARK, UNASKED, Seen, Symptom, found
from operations.wire.doctor import Gpu, GpuLoad

#: SM clock under load: 2,281 MHz [J] to about 2,400 [K] where all is well, 500 to 850 where power is held back [J, K];
#: an owner's own limit (nvidia-smi -lgc) is seldom below 2,000.
STUCK_MHZ, SLOW_MHZ = 1400, 2000
#: Watts under a dense matrix product: 92.5 where all is well, 19.5 held back [J].
STARVED_W = 45
#: What a GPU does that has work to do.
BUSY_PERCENT = 50
#: Degrees at which GB10s were seen before they hung [L]; 65 to 80 with their clock limited to 2,100 MHz.
HOT, WARM = 90, 85
#: Bits of clocks_event_reasons.active (NVML's API reference).
HELD_BACK = {
    0x08: "hardware slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake: the supply asks for less",
    0x20: "software thermal slowdown",
}
#: What helps against heat, and against a node that goes off under load, at little cost ([L], [Z]).
CAP = "cap its clock: gpu_clock_mhz = 2100 in group_data/all.py"
BRICK = (
    "shut down, unplug the power brick from the wall and from the Spark for a minute; then the cable, then the brick"
)
LIMITS = "nvidia-smi -q -d CLOCK,PERFORMANCE"
NOT_SEEN = Kind(
    "gpu-not-seen",
    "the driver {driver} is loaded, and nvidia-smi sees no GPU",
    "an engine can't start",
    "sudo dmesg | grep NVRM; reboot; if it stays so, the driver does not match the kernel",
)
IS_HOT = Kind("gpu-hot", "the GPU has {celsius:.0f} °C", "it slows down; GB10s have hung at 91", f"give it air; {CAP}")
IS_HELD_BACK = Kind(
    "gpu-held-back",
    "the GPU is held back now: {reasons}",
    "heat or a weak power supply",
    f"give it air, or {CAP}; if it is cool: {BRICK}",
)
WAS_HELD_BACK = Kind(
    "gpu-was-held-back",
    "the GPU was held back since the driver was loaded: {reasons}",
    "heat or power was short at times",
    f"give it air; {CAP}",
)
HELD_BACK_UNDER_LOAD = Kind(
    "gpu-held-back-under-load",
    "under load the GPU is held back: {reasons}",
    "heat or a weak power supply",
    f"if it is hot {CAP}; else: {BRICK}",
)
STUCK = Kind(
    "gpu-clock-stuck",
    "the GPU works at {mhz:.0f} MHz and {watts:.0f} W; a GB10 has about 2,300",
    "power is held back, by a supply that was negotiated badly: a third of the tokens (12 a second and not 36)",
    f"{BRICK}. A reboot does not help",
)
STARVED = Kind(
    "gpu-starved",
    "the GPU draws {watts:.0f} W under full load; a GB10 draws about 90",
    "power is held back although the clock looks right",
    BRICK,
)
SLOW = Kind(
    "gpu-clock-slow",
    "the GPU works at {mhz:.0f} MHz; a GB10 has about 2,300",
    "a limit of the owner's, or heat",
    f"{LIMITS}; a limit is gpu_clock_mhz, or sudo nvidia-smi -rgc takes it away",
)
UNEQUAL = Kind(
    "gpu-clocks-unequal",
    "clocks under the same load: {clocks}",
    "all wait for the slowest",
    f"find out why {{slowest}} is slower: {LIMITS} on both",
)


def judge(seen: Seen) -> Iterator[Symptom]:
    """Each GPU as it is, and under load."""
    drivers = {node: software["driver"] for node, software in seen.topic(lambda look: look.get("software"))}
    for node, told in seen.topic(lambda look: look.get("gpu")):
        if not told["gpus"]:
            if drivers.get(node):
                yield found(NOT_SEEN, BAD, node, driver=drivers[node])
            else:
                yield Symptom(UNASKED, (node,), "no GPU: clocks, power, heat, who holds it")
            continue
        for gpu in told["gpus"]:
            yield from _at_rest(node, gpu)
        yield from _counted(node, told["counters"])
        if node in seen.loads:
            yield from _under_load(node, told["gpus"][0]["name"], seen.loads[node])
    yield from _unequal(seen)


def _at_rest(node: str, gpu: Gpu) -> Iterator[Symptom]:
    celsius = gpu["celsius"] or 0
    if celsius >= WARM:
        yield found(IS_HOT, BAD if celsius >= HOT else REMARK, node, celsius=celsius)
    if held := reasons(gpu["reasons"]):
        yield found(IS_HELD_BACK, BAD, node, reasons=", ".join(held))


def _counted(node: str, counters: dict[str, float]) -> Iterator[Symptom]:
    told = [f"{name} {seconds:.1f} s" for name, seconds in counters.items() if seconds >= 0.1]
    if told:
        yield found(WAS_HELD_BACK, REMARK, node, reasons=", ".join(told))


def _under_load(node: str, name: str, load: GpuLoad) -> Iterator[Symptom]:
    if not load.get("by"):
        yield Symptom(UNASKED, (node,), f"the GPU's clock under load: {load.get('why', 'nothing was told')}")
        return
    busy = _busy(load)
    if not busy:
        yield Symptom(UNASKED, (node,), "the GPU's clock under load: it had nothing to do while it was looked at")
        return
    if "GB10" not in name:
        yield Symptom(UNASKED, (node,), f"whether the clock is right: what a {name} gives is not known here")
        return
    clock, power = _clock(busy), _power(busy)
    if clock < STUCK_MHZ:
        yield found(STUCK, BAD, node, mhz=clock, watts=power)
    elif load["by"] == "own" and 0 < power < STARVED_W:
        yield found(STARVED, BAD, node, watts=power)
    elif clock < SLOW_MHZ:
        yield found(SLOW, REMARK, node, mhz=clock)
    if held := sorted({reason for sample in busy for reason in reasons(sample["reasons"])}):
        yield found(HELD_BACK_UNDER_LOAD, BAD, node, reasons=", ".join(held))


def _unequal(seen: Seen) -> Iterator[Symptom]:
    """In a cluster all ranks wait for the slowest."""
    clocks = {node: _clock(busy) for node, load in seen.loads.items() if load.get("by") and (busy := _busy(load))}
    kinds = {seen.loads[node]["by"] for node in clocks}
    if len(clocks) > 1 and len(kinds) == 1 and min(clocks.values()) < 0.85 * max(clocks.values()):
        told = ", ".join(f"{node} {clock:.0f} MHz" for node, clock in clocks.items())
        slow = min(clocks, key=lambda node: clocks[node])
        yield found(UNEQUAL, REMARK, *clocks, clocks=told, slowest=slow)


def figures(seen: Seen) -> Iterator[str]:
    """What was measured, for people."""
    for node, load in seen.loads.items():
        if busy := _busy(load):
            tflops = f", {load['tflops']:.1f} TFLOP/s in BF16" if "tflops" in load else ""
            yield f"{node}: GPU under load {_clock(busy):.0f} MHz, {_power(busy):.0f} W{tflops}"


def reasons(bits: int) -> list[str]:
    """Why a clock is held back, without idleness and limits that were asked for."""
    return [text for bit, text in HELD_BACK.items() if bits & bit]


def _busy(load: GpuLoad) -> list[Gpu]:
    samples = load.get("samples", [])
    return [each for each in samples if (each["utilization"] or 0) >= BUSY_PERCENT and each["sm_mhz"]]


def _clock(busy: list[Gpu]) -> float:
    return float(median(each["sm_mhz"] or 0 for each in busy))


def _power(busy: list[Gpu]) -> float:
    return float(median([each["power_w"] for each in busy if each["power_w"] is not None] or [0]))
