"""A start of the engine's image that looks for the GPU, with a double of docker: no image and no GPU are here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from operations.node.image import gpu_trial

FLAGS = ["--cap-drop", "ALL", "--gpus", "all"]
TRIAL: Any = {
    "names": ["tandem/engine:1", "vllm:x"],
    "flags": FLAGS,
    "exports": "",
    "serving": False,
    "python": True,
    "by": {"flags": FLAGS, "driver": "580.95"},
}
SEEN = {"smi": [0, "GPU 0: NVIDIA GB10 (UUID: GPU-1)"], "nvml": [1, ""], "cuda": [1, ""]}
#: Docker's words, less the name of the image.
NO_DRIVER = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].'
NO_CDI = "docker: Error response from daemon: CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all."


@pytest.fixture(autouse=True)
def docker_double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Knows the image by its source's name alone; its `run` says what is in `said`, and ends with `status`."""
    (tmp_path / "docker").write_text(
        "#!/bin/sh\n"
        f'echo "$*" >>{tmp_path}/asked\n'
        'case "$1 $4" in\n'
        '    "image "*) [ "$3" = vllm:x ] && echo \'[{"Id": "sha256:aa"}]\' || { echo "[]"; exit 1; } ;;\n'
        f"    run*) cat >/dev/null; cd {tmp_path}; cat said; cat complaint >&2; exit $(cat status) ;;\n"
        "esac\n"
    )
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(gpu_trial, "KEPT", tmp_path / "kept")
    says(tmp_path, SEEN)


def says(folder: Path, told: Any = None, complaint: str = "", status: int = 0) -> None:
    (folder / "said").write_text(json.dumps(told) + "\n" if told else "")
    (folder / "complaint").write_text(complaint)
    (folder / "status").write_text(str(status))


def test_what_has_seen_the_gpu_is_remembered_with_what_that_hangs_on(tmp_path: Path) -> None:
    assert gpu_trial.seen("sha256:aa") == {} == gpu_trial.seen("")
    assert gpu_trial.main([TRIAL]) == {"tandem/engine:1": {"problem": "", "remedy": "", "remark": ""}}
    assert gpu_trial.seen("sha256:aa") == TRIAL["by"]
    (run,) = [line for line in (tmp_path / "asked").read_text().splitlines() if line.startswith("run")]
    assert " ".join(FLAGS) in run and run.endswith("--entrypoint python3 vllm:x -")


def test_an_image_that_is_not_here_is_left_for_later() -> None:
    assert gpu_trial.main([TRIAL | {"names": ["tandem/engine:1"]}]) == {}


@pytest.mark.parametrize(
    ("complaint", "problem", "remedy"),
    [
        (NO_DRIVER, "could not select device driver", "sudo apt install nvidia-container-toolkit"),
        (NO_CDI, "unresolvable CDI devices", "sudo nvidia-ctk cdi generate"),
        ("docker: no room", "docker: no room", "`docker run --rm --cap-drop ALL --gpus all --entrypoint nvidia-smi"),
        ("", "it ends with 125", "must name the GPU"),
    ],
)
def test_what_docker_refuses_is_said_with_what_helps(tmp_path: Path, complaint: str, problem: str, remedy: str) -> None:
    says(tmp_path, complaint=f"{complaint}\n\nRun 'docker run --help' for more information\n", status=125)
    told = gpu_trial.main([TRIAL])["tandem/engine:1"]
    assert problem in told["problem"] and remedy in told["remedy"] and "\n" not in told["problem"]
    assert gpu_trial.seen("sha256:aa") == {}


@pytest.mark.parametrize(
    ("changes", "problem", "remedy"),
    [
        ({"smi": [9, "No devices were found"]}, "ends with 9: No devices were found", "reboot"),
        ({"smi": [0, ""]}, "ends with 0: without a word", "reboot"),
        ({"smi": None, "nvml": [0, "libnvidia-ml.so.1 is not in it"]}, "gets no nvidia-smi", "=compute,utility"),
        ({"cuda": [0, "cuInit says 999"]}, "CUDA in the engine's image finds no GPU: cuInit says 999", "reboot"),
        ({"cuda": [0, "libcuda.so.1 is not in it"]}, "libcuda.so.1 is not in it", "=compute,utility"),
    ],
)
def test_an_image_that_finds_no_gpu_is_one_line_with_its_remedy(changes: Any, problem: str, remedy: str) -> None:
    fault = gpu_trial.judged(SEEN | changes)
    assert fault and problem in fault.problem and remedy in fault.remedy


def test_without_nvidia_smi_the_drivers_libraries_are_the_proof(tmp_path: Path) -> None:
    says(tmp_path, SEEN | {"smi": None})
    told = gpu_trial.main([TRIAL])["tandem/engine:1"]
    assert told["problem"] == "" and told["remark"].startswith("the engine's image has no nvidia-smi; NVML and CUDA")


def test_where_there_is_no_driver_the_script_says_so(tmp_path: Path) -> None:
    """The script that is run in images, here: on a machine without a GPU it ends well, and tells that there is none."""
    argv = [sys.executable, "-"]
    environment = os.environ | {"PATH": str(tmp_path)}
    done = subprocess.run(argv, input=gpu_trial.SCRIPT, capture_output=True, text=True, env=environment, check=True)
    told = json.loads(done.stdout)
    if told["cuda"][1]:
        fault = gpu_trial.judged(told)
        assert fault and "gets no nvidia-smi" in fault.problem


def test_what_engines_have_stays_while_docker_can_do_it(tmp_path: Path) -> None:
    cdi, hook = "docker run --device nvidia.com/gpu=all x", "docker run --gpus all x"
    booted: dict[str, Any] = {"CDISpecDirs": [str(tmp_path)], "Runtimes": {"nvidia": {}}, "ServerVersion": "28.2.2"}
    # The specification is not made yet.
    assert gpu_trial.by_cdi(booted, [cdi]) and not gpu_trial.by_cdi(booted, [hook])
    made = booted | {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}]}
    assert gpu_trial.by_cdi(made, [cdi]) and not gpu_trial.by_cdi(made, [hook])
    # Nothing is there, or Docker can no longer do what there is.
    assert gpu_trial.by_cdi(made, []) and not gpu_trial.by_cdi(booted, [])
    assert gpu_trial.by_cdi(made | {"Runtimes": {}}, [hook])
    assert not gpu_trial.by_cdi({"Runtimes": {"nvidia": {}}}, [cdi])


def test_a_specification_counts_where_docker_takes_such_devices(tmp_path: Path) -> None:
    on = {"CDISpecDirs": [str(tmp_path / "cdi"), str(tmp_path / "none")]}
    assert not gpu_trial.is_specified(on)
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi/other.yaml").write_text("kind: vendor.com/nic\n")
    assert not gpu_trial.is_specified(on)
    (tmp_path / "cdi/nvidia.yaml").write_text("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n")
    assert gpu_trial.is_specified(on)
    # What Docker has found counts where it says so: it leaves out a specification that is newer than itself.
    found = on | {"ServerVersion": "28.2.2"}
    assert not gpu_trial.is_specified(found)
    assert not gpu_trial.is_specified(found | {"DiscoveredDevices": [{"Source": "cdi", "ID": "vendor.com/nic=1"}]})
    assert gpu_trial.is_specified(found | {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}]})
    assert gpu_trial.is_specified(on | {"ServerVersion": "27.5.1"})
    # Docker 28.1 without the feature, and one that is too old to know of it.
    assert not gpu_trial.is_specified({"CDISpecDirs": []}) and not gpu_trial.is_specified({})


def test_late_beside_an_engine_that_runs_is_a_remark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_trial, "PATIENCE_S", 0.3)
    (tmp_path / "cat").write_text("#!/bin/sh\nexec sleep 5\n")
    (tmp_path / "cat").chmod(0o755)
    assert "nothing came in 0.3 s" in gpu_trial.main([TRIAL])["tandem/engine:1"]["problem"]
    told = gpu_trial.main([TRIAL | {"serving": True}])["tandem/engine:1"]
    assert told["problem"] == "" and "is not known: nothing came in 0.3 s" in told["remark"]
    # It is tried again by the next deploy.
    assert gpu_trial.seen("sha256:aa") == {}


def test_the_shell_fills_in_what_the_recipe_exports(tmp_path: Path) -> None:
    gpu_trial.main([TRIAL | {"exports": 'export LD_LIBRARY_PATH="/x:$LD_LIBRARY_PATH"\n'}])
    asked = (tmp_path / "asked").read_text()
    assert '--entrypoint sh vllm:x -c export LD_LIBRARY_PATH="/x:$LD_LIBRARY_PATH"\nexec python3 -' in asked


def test_docker_s_own_words_count_whatever_its_client_says_behind_them() -> None:
    waits = 'time="2026-11-26T22:54:13Z" level=error msg="error waiting for container: context canceled"'
    assert gpu_trial._last(f"{NO_DRIVER}\n{waits}\n") == NO_DRIVER
    assert gpu_trial._last("one\ntwo\n\nRun 'docker run --help' for more information\n") == "two"


def test_an_image_without_python_is_asked_by_its_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same questions, as far as a shell can ask them, in the way of a container that reads a script."""
    said = "smi 0 GPU 0: NVIDIA GB10 (UUID: GPU-1)\nnvml there\ncuda there\ntold\n"
    called: list[tuple[str, Any]] = []

    def run(image: str, script: str, *_: Any, **more: Any) -> subprocess.CompletedProcess[str]:
        called.append((script, more["reader"]))
        return subprocess.CompletedProcess([image], 0, said, "")

    monkeypatch.setattr("operations.node.image.container.run", run)
    monkeypatch.setattr(gpu_trial, "docker_inspect", lambda *_: [{"Id": "sha256:bb"}])
    told = gpu_trial.main([TRIAL | {"python": False}])["tandem/engine:1"]
    assert told["problem"] == "" and called == [(gpu_trial.SHELL, ("sh", "-s"))]


def test_what_a_shell_is_asked_it_understands() -> None:
    done = subprocess.run(["sh", "-s"], input=gpu_trial.SHELL, capture_output=True, text=True, check=True)
    assert gpu_trial.by_words(done.stdout).keys() == {"smi", "nvml", "cuda"} and done.stderr == ""
