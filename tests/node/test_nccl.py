"""files/engine/nccl.py on real libraries: two builds under one name, as in vLLM's images."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from operations.node.unit import journal
from operations.plan.cluster import nccl
from operations.plan.recipes.formats import load_recipe
from tests.plan.samples import knobs

PROGRAM = Path(__file__).parents[2] / "files/engine/nccl.py"


def library(path: Path, version: int) -> Path:
    """A library that says this version when it is asked as NCCL is."""
    path.parent.mkdir(parents=True)
    source = path.with_suffix(".c")
    source.write_text(f"int ncclGetVersion(int *v) {{ *v = {version}; return 0; }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", "-o", path, source], check=True)
    return path


def run(*paths: Path) -> tuple[int, str]:
    done = subprocess.run([sys.executable, PROGRAM, *paths], capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return library(tmp_path / "wheel/libnccl.so.2", 22809)


@pytest.fixture
def system(tmp_path: Path) -> Path:
    real = library(tmp_path / "system/libnccl.so.2.28.3", 22803)
    (tmp_path / "system/libnccl.so.2").symlink_to(real.name)
    return tmp_path / "system/libnccl.so.2"


def test_whoever_opens_the_wheel_s_gets_the_system_s_and_the_log_says_what_the_deploy_looks_for(
    wheel: Path, system: Path
) -> None:
    code, said = run(wheel, system)
    assert code == 0 and said.endswith("libnccl.so.2.28.3 stands for the wheel's: 2.28.3 for 2.28.9\n")
    number = ctypes.c_int()
    ctypes.CDLL(str(wheel)).ncclGetVersion(ctypes.byref(number))
    assert number.value == 22803
    expected = nccl.expected(load_recipe("qwen3.6-35b-a3b-nvfp4"), knobs(topology="cluster"))
    assert journal.matches([said, "NCCL version 2.28.3+cuda13.0"], expected).keys() == set(expected)


def test_a_second_start_in_the_same_container_changes_nothing(wheel: Path, system: Path) -> None:
    run(wheel, system)
    code, said = run(wheel, system)
    assert code == 0 and "2.28.3 for 2.28.3" in said
    assert [path.name for path in wheel.parent.iterdir() if path.suffix != ".c"] == ["libnccl.so.2"]


@pytest.mark.parametrize("whose", ["wheel", "system"])
def test_an_image_without_one_of_them_does_not_start(wheel: Path, system: Path, whose: str) -> None:
    paths = {"wheel": wheel, "system": system}
    paths[whose] = paths[whose].with_name("none")
    code, said = run(paths["wheel"], paths["system"])
    assert code == 1 and f"NCCL: the {whose} has none in this image" in said and "set nccl in the recipe" in said
    assert not nccl_line(said)


def test_a_folder_that_can_t_be_written_to_ends_the_start_in_one_line(tmp_path: Path, system: Path) -> None:
    # Where a file should be is a folder: not even root can put a link there.
    place = tmp_path / "wheel/libnccl.so.2"
    place.mkdir(parents=True)
    code, said = run(place, system)
    assert code == 1 and "can't stand for the wheel's" in said and said.count("\n") == 1 and not nccl_line(said)


def nccl_line(said: str) -> bool:
    """Whether the deploy would take it for done."""
    expected = nccl.expected(load_recipe("qwen3.6-35b-a3b-nvfp4"), knobs(topology="cluster"))
    return bool(journal.matches([said], expected[:1]))
