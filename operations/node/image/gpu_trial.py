"""Whether a container of the engine's image sees the GPU: it is started once with the engine's own flags, and asked."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from operations.node.commands import docker_inspect, read
from operations.node.image import container, remembered
from operations.paths import VAR
from operations.wire import Json
from operations.wire.model import GpuTold, GpuTrial

KEPT = Path(VAR) / "gpu-trials"
#: All GPUs of a node, as NVIDIA's toolkit names them in its CDI specification.
ALL_GPUS = "nvidia.com/gpu=all"
#: Seconds for a container, Python and the driver's first call in it.
PATIENCE_S = 90
#: Says what nvidia-smi, NVML and CUDA tell: {"smi": [status, words]}, the others [GPUs, what went wrong]. vLLM finds
#: its platform by NVML, and CUDA can fail where NVML does not (no /dev/nvidia-uvm). No memory of the GPU is taken.
SCRIPT = r"""
import ctypes, json, shutil, subprocess
def gpus(name, begin, arguments, count):
    try:
        library = ctypes.CDLL(name)
    except OSError:
        return [0, name + " is not in it"]
    number = ctypes.c_int(0)
    for call, given in ((begin, arguments), (count, (ctypes.byref(number),))):
        status = getattr(library, call)(*given)
        if status:
            return [0, f"{call} says {status}"]
    return [number.value, "" if number.value else "there is none"]
told = {"smi": None}
if shutil.which("nvidia-smi"):
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
    told["smi"] = [done.returncode, (done.stdout or done.stderr).strip()]
told["nvml"] = gpus("libnvidia-ml.so.1", "nvmlInit_v2", (), "nvmlDeviceGetCount_v2")
told["cuda"] = gpus("libcuda.so.1", "cuInit", (0,), "cuDeviceGetCount")
print(json.dumps(told))
"""
#: Says the same to a shell, of an image without Python: whether CUDA's library is there, and not that it finds a GPU.
SHELL = r"""
if command -v nvidia-smi >/dev/null; then
    words=$(nvidia-smi -L 2>&1) && status=0 || status=$?
    echo "smi $status $words"
fi
for library in nvml cuda; do
    name=lib$library.so.1
    [ $library = cuda ] || name=libnvidia-ml.so.1
    { ldconfig -p 2>/dev/null | grep -q "$name" || ls /usr/lib/*/"$name" >/dev/null 2>&1; } && echo "$library there"
done
echo told
"""
_CAPABILITIES = "let the recipe's `env` say NVIDIA_DRIVER_CAPABILITIES=compute,utility"
_NO_DRIVER = (
    "sudo apt install nvidia-container-toolkit && sudo nvidia-ctk runtime configure && sudo systemctl restart docker"
)
_NO_CDI = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"


class Fault(NamedTuple):
    """Why a container does not see the GPU, and what helps."""

    problem: str
    remedy: str


def main(trials: Sequence[GpuTrial]) -> dict[str, GpuTold]:
    """What came of each trial, by its first name; one whose image is not here is left out.

    One that saw the GPU is kept by the image's id, with what it hangs on.
    """
    return {trial["names"][0]: told for trial in trials if (told := _tried(trial)) is not None}


def seen(image_id: str) -> Json:
    """What the last trial of an image that saw the GPU hung on; empty: there was none."""
    return remembered.read(KEPT, image_id) if image_id else {}


def by_cdi(info: Json, runs: Sequence[str]) -> bool:
    """Whether engines get the GPU by a CDI specification. `info`: `docker info`, as JSON; `runs`: run.sh of those here.

    What they have stays while Docker can do it: right after a boot the specification may not be made yet, and a deploy
    then would start every engine anew, and the next one again.
    """
    if info.get("CDISpecDirs") and any(ALL_GPUS in text for text in runs):
        return True
    hooked = "nvidia" in (info.get("Runtimes") or {}) and any("--gpus all" in text for text in runs)
    return not hooked and is_specified(info)


def is_specified(info: Json) -> bool:
    """Whether Docker gives containers NVIDIA's GPUs by a CDI specification. `info`: `docker info`, as JSON.

    From 28.2 on Docker takes such devices by default, and names those that it has found: it leaves out a specification
    that is newer than itself (its API's version history, 1.50). An older one has to be told to: `CDISpecDirs`.
    """
    if not info.get("CDISpecDirs"):
        return False
    version = re.match(r"(\d+)\.(\d+)", info.get("ServerVersion", ""))
    if version and (int(version[1]), int(version[2])) >= (28, 2):
        return any(each.get("ID") == ALL_GPUS for each in info.get("DiscoveredDevices") or ())
    files = [
        file for folder in info["CDISpecDirs"] for file in Path(folder).glob("*") if file.suffix in (".yaml", ".json")
    ]
    return any("nvidia.com/gpu" in read(file) for file in files)


def judged(told: Json) -> Fault | None:
    """What SCRIPT's words come to; None: the GPU is seen. Without nvidia-smi the driver's libraries are the proof: an
    engine needs these.
    """
    (_, nvml), (_, cuda) = told["nvml"], told["cuda"]
    if told["smi"] is None:
        if nvml:
            problem = f"the engine's image gets no nvidia-smi, and no GPU by NVML ({nvml}): an engine would find none"
            return Fault(problem, _CAPABILITIES)
    elif told["smi"][0] or "GPU 0" not in told["smi"][1]:
        status, words = told["smi"]
        problem = f"`nvidia-smi -L` in the engine's image ends with {status}: {_last(words) or 'without a word'}"
        return Fault(problem, "`nvidia-smi -L` on the node must work first; where it does, reboot it")
    if "is not in it" in cuda:
        return Fault(f"CUDA in the engine's image finds no GPU: {cuda}", _CAPABILITIES)
    if cuda:
        remedy = "reboot it; if it stays so, the image's CUDA wants a newer driver"
        return Fault(f"CUDA in the engine's image finds no GPU: {cuda}", remedy)
    return None


def by_words(text: str) -> Json:
    """What SHELL said, as SCRIPT says it; empty: it did not come to its end."""
    if text.splitlines()[-1:] != ["told"]:
        return {}
    smi = re.search(r"^smi (\d+) (.*)", text, re.MULTILINE)
    told: Json = {"smi": [int(smi[1]), smi[2]] if smi else None}
    for library, name in (("nvml", "libnvidia-ml.so.1"), ("cuda", "libcuda.so.1")):
        told[library] = [0, "" if f"\n{library} there" in f"\n{text}" else f"{name} is not in it"]
    return told


def _tried(trial: GpuTrial) -> GpuTold | None:
    image, image_id = next(
        ((name, found[0]["Id"]) for name in trial["names"] if (found := docker_inspect("image", name))), ("", "")
    )
    if not image:
        return None
    told: Json = {}
    try:
        if trial["python"]:
            done = container.run(image, SCRIPT, PATIENCE_S, trial["flags"], exports=trial["exports"])
            told = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
        else:
            reader = ("sh", "-s")
            done = container.run(image, SHELL, PATIENCE_S, trial["flags"], exports=trial["exports"], reader=reader)
            told = by_words(done.stdout)
        words = _last(done.stderr) or f"it ends with {done.returncode}"
    except TimeoutError as error:
        if trial["serving"]:
            # A node that computes may be late, and nothing waits for the answer.
            remark = f"whether the engine's image sees the GPU is not known: {error} beside the engine that runs"
            return {"problem": "", "remedy": "", "remark": remark}
        words = str(error)
    except (OSError, ValueError, IndexError) as error:
        words = str(error)
    if fault := judged(told) if told else _not_started(trial, image, words):
        return {"problem": fault.problem, "remedy": fault.remedy, "remark": ""}
    remembered.write(KEPT, image_id, trial["by"])
    by = "NVML and CUDA in it find the GPU" if trial["python"] else "its libraries are there, nobody called them"
    remark = "" if told["smi"] else f"the engine's image has no nvidia-smi; {by}"
    return {"problem": "", "remedy": "", "remark": remark}


def _not_started(trial: GpuTrial, image: str, words: str) -> Fault:
    problem = f"the engine's image does not start with the GPU: {words}"
    if "could not select device driver" in words:
        return Fault(problem, _NO_DRIVER)
    if "CDI" in words:
        return Fault(problem, _NO_CDI)
    given = " ".join(trial["flags"])
    return Fault(problem, f"`docker run --rm {given} --entrypoint nvidia-smi {image} -L` must name the GPU")


def _last(words: str) -> str:
    """The last line that says something: Docker's own where there is one, for its client may add that it waits no more,
    and ends with a hint to its help.
    """
    lines = [line.strip() for line in words.splitlines() if line.strip() and "docker run --help" not in line]
    docker = [line for line in lines if line.startswith("docker: ")]
    return (docker or lines)[-1][:300] if lines else ""
