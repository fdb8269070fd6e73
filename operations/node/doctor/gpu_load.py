"""The GPU's clock and power while it works: for a program of our own, or for the engine that serves.

An idle GPU has a low clock and nothing is wrong with it. So it is given something to do: a matrix product in the
engine's image where nobody uses the GPU; where the engine runs, it is asked for tokens, and nothing else is started.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress

from operations.node import lock
from operations.node.commands import docker_inspect, output
from operations.node.doctor import memory
from operations.node.engine.probe import ask
from operations.node.image import container, gpu_trial
from operations.node.look import status
from operations.node.machine import gpu
from operations.node.unit import services
from operations.node.unit.services import unit_states
from operations.paths import ENGINE
from operations.wire import Json
from operations.wire.doctor import Gpu, GpuLoad

#: Seconds of load that are looked at, and that a start of Python and CUDA in a container may take.
LOOK_S = 3
START_S = 45
#: Seconds between two looks.
PAUSE_S = 0.2
#: Seconds for an engine to say that it is there.
ANSWER_S = 5
#: GiB that must be available for a load of our own: three matrices and what CUDA takes itself.
ROOM_GIB = 8
#: Prints what was computed, in TFLOP/s of BF16.
SCRIPT = """
import sys, time
try:
    import torch
except ImportError:
    sys.exit("no torch in the image")
n = 8192
a = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
b = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
a @ b
torch.cuda.synchronize()
begun, count = time.monotonic(), 0
while time.monotonic() - begun < SECONDS:
    for _ in range(8):
        a @ b
    torch.cuda.synchronize()
    count += 8
print(2 * n**3 * count / (time.monotonic() - begun) / 1e12)
"""


def main(image: str) -> GpuLoad:
    """`by`: `engine`, `own` or empty, then `why` not; `samples`: what gpu.state says of the first GPU, again and again;
    `tflops`: of our own load. {}: no GPU.
    """
    if not gpu.state():
        return {}
    units = [unit for unit in services.engines() if docker_inspect("container", unit)] or [ENGINE]
    unit = units[0]
    engine = next(iter(docker_inspect("container", unit)), None)
    labels = engine["Config"]["Labels"] or {} if engine and engine["State"]["Running"] else None
    if why := _in_the_midst(unit, labels):
        return {"by": "", "why": why, "samples": []}
    if labels is not None:
        return {"by": "engine", "samples": _while_engine_answers(labels)}
    if others := gpu.processes():
        return {"by": "", "why": f"{others[0]['process']} (pid {others[0]['pid']}) uses it", "samples": []}
    if not image or not docker_inspect("image", image):
        return {"by": "", "why": "the engine's image is not here", "samples": []}
    if memory.main()["available_gib"] < ROOM_GIB:
        return {"by": "", "why": f"less than {ROOM_GIB} GiB of memory are available", "samples": []}
    return _while_computing(image)


def _in_the_midst(unit: str, labels: dict[str, str] | None) -> str:
    """Why the GPU is left alone: an engine that starts measures how much memory is free, and would find less.

    `unit`: the engine's; `labels`: of its container, where it runs.
    """
    if lock.is_held():
        return "a deploy or a bench is going on"
    state = unit_states([unit])[unit].get("ActiveState", "")
    if state in ("activating", "deactivating", "reloading"):
        return f"{unit} is {state}"
    if state == "active" and labels is None:
        return f"{unit} is active, and its container does not run yet"
    if labels and (url := labels.get("tandem.url", "")):
        try:
            ask(f"{url}/v1/models", None, "", ANSWER_S)
        except (OSError, ValueError) as error:
            return f"{unit} does not answer: {getattr(error, 'reason', error)}"
        if status.asked(unit):
            return f"{unit} gives no tokens, by which the GPU would be kept at work"
    return ""


def _while_computing(image: str) -> GpuLoad:
    """Run the script, and look at the GPU until it has ended."""
    samples: list[Gpu] = []

    def sample() -> None:
        samples.extend(gpu.state()[:1])

    try:
        done = container.run(image, SCRIPT.replace("SECONDS", str(LOOK_S)), START_S, _given(), sample)
        if done.returncode == 0:
            return {"by": "own", "samples": samples, "tflops": float(done.stdout.splitlines()[-1])}
        why = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1][:200]
    except (OSError, ValueError, IndexError) as error:
        why = str(error)
    return {"by": "", "why": f"a program on it failed: {why}", "samples": []}


def _given() -> tuple[str, str]:
    """As an engine's container gets the GPU (operations/plan/services/engine_service.py)."""
    info = json.loads(output("docker", "info", "--format", "{{json .}}") or "{}")
    return ("--device", gpu_trial.ALL_GPUS) if gpu_trial.is_specified(info) else ("--gpus", "all")


def _while_engine_answers(labels: dict[str, str]) -> list[Gpu]:
    """What the GPU does while its engine is asked for tokens; a rank without an address works when the head does."""
    url, model = labels.get("tandem.url", ""), labels.get("tandem.model", "")
    if url:
        body = {"model": model, "messages": [{"role": "user", "content": "Count to a thousand."}], "max_tokens": 256}
        threading.Thread(target=_asked, args=(f"{url}/v1/chat/completions", body), daemon=True).start()
    samples, end = list[Gpu](), time.monotonic() + LOOK_S
    while time.monotonic() < end:
        samples += gpu.state()[:1]
        time.sleep(PAUSE_S)
    return samples


def _asked(url: str, body: Json) -> None:
    # What it answers is not the question here; whether it answers is what `tandem status` says.
    with suppress(OSError, ValueError):
        ask(url, body, "", START_S)
