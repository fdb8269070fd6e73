"""Byte code of an image that has none outlives the container: the real start.sh and the real Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from operations.plan.config.files import render
from tests.node.shipped import FILES


class Image:
    """A package with a Python that finds it, and start.sh as a container has it."""

    def __init__(self, place: Path) -> None:
        self.kept, self.mount, self.packages = place / "cache/pycache", place / "tandem", place / "packages"
        self.kept.parent.mkdir()
        self.mount.mkdir()
        program = (FILES / "engine/byte_code.py").read_text()
        assert program.count('"/root/.cache"') == 1
        (self.mount / "byte_code.py").write_text(program.replace("/root/.cache", str(place / "cache")))
        shutil.copy(FILES.parent / "operations/node/kernels/compiled.py", self.mount)
        for name in ("__init__.py", "serve.py"):
            (self.packages / "engine" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.packages / "engine" / name).write_text("x = 1\n")
        (place / "bin").mkdir()
        (place / "bin/python3").symlink_to(sys.executable)
        self.path = f"{place / 'bin'}:{os.environ['PATH']}"

    def start(self, package: str = "engine", **env: str) -> None:
        """The container's start: its program imports the package."""
        command = ["python3", "-c", "import engine.serve"]
        script = render(
            "engine/start.sh.j2",
            exports={},
            shell=(),
            folders=(),
            before=[],
            mount=str(self.mount),
            package=package,
            runs="runs",
            commands=[command],
        )
        (self.mount / "start.sh").write_text(script)
        here = {"PATH": self.path, "PYTHONPATH": str(self.packages), **env}
        subprocess.run(["sh", str(self.mount / "start.sh")], env=here, check=True, capture_output=True)

    def compiled(self, place: Path) -> set[str]:
        return {each.name.partition(".")[0] for each in place.rglob("*.pyc") if "engine" in each.parts}


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path)


@pytest.mark.parametrize("env", [{}, {"PYTHONDONTWRITEBYTECODE": "1"}])
def test_byte_code_that_an_image_lacks_is_kept_and_used(image: Image, env: dict[str, str]) -> None:
    image.start(**env)
    assert image.compiled(image.kept) == {"__init__", "serve"} and not image.compiled(image.packages)
    first = {each: each.stat().st_mtime_ns for each in image.kept.rglob("*.pyc")}
    image.start(**env)
    assert first == {each: each.stat().st_mtime_ns for each in image.kept.rglob("*.pyc")}, "the next one compiles none"


def test_byte_code_of_the_image_is_left_to_it(image: Image) -> None:
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(image.packages)], check=True)
    image.start()
    assert not image.kept.exists()


def test_a_recipe_that_says_where_has_the_last_word(image: Image, tmp_path: Path) -> None:
    image.start(PYTHONPYCACHEPREFIX=str(tmp_path / "mine"))
    assert image.compiled(tmp_path / "mine") and not image.kept.exists()


def test_a_python_without_the_package_and_an_engine_without_python_start_as_they_are(image: Image) -> None:
    image.start("not_there", PYTHONDONTWRITEBYTECODE="1")
    image.start("", PYTHONDONTWRITEBYTECODE="1")
    assert not image.kept.exists() and not image.compiled(image.packages)


def test_a_nearly_full_disk_keeps_none_that_it_would_cut_off(image: Image) -> None:
    landed = image.mount / "compiled.py"
    assert landed.read_text().count("2 << 30") == 1
    landed.write_text(landed.read_text().replace("2 << 30", "1 << 60"))
    image.start()
    assert not image.kept.exists()
