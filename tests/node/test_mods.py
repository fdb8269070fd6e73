"""Mods: on the real wheels that they are written for, and everything that can be wrong with one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from operations.plan.config.refusal import Refusal
from operations.plan.recipes import mods
from operations.plan.recipes.images import Image

ROOT = Path(__file__).parents[2]
APPLY = ROOT / "files/mods/apply.py"
#: Kept between runs: 100 MB.
WHEELS = ROOT / ".wheels"
FLASHINFER = {
    "0.6.9": "46d013119ecd039a5844c4847325b3571f99cdd8fd9e00839bf008c67b15811a",
    "0.6.10": "8bdfc2db80e462c41a1bc35dffeae9c6b4d012dee75e0766432c8efbdfd4398d",
}
MMA = "nvidia_cutlass_dsl/python_packages/cutlass/cute/nvgpu/warp/mma.py"
GEMM = "flashinfer/gemm/kernels/dense_blockscaled_gemm_sm120.py"
#: Builds the operation whose own check names the architectures; its words are the proof.
ASK = """
from cutlass import Float4E2M1FN, Float8E4M3FN, Float32
from cutlass.cute.nvgpu.warp.mma import MmaMXF4NVF4Op
try:
    MmaMXF4NVF4Op(Float4E2M1FN, Float32, Float8E4M3FN)
    print("admitted")
except Exception as refused:
    print("refused:", refused)
"""


def wheel(package: str, version: str, hashes: list[str]) -> Path:
    """A wheel for this Python, downloaded once, proven by its hash."""
    WHEELS.mkdir(exist_ok=True)
    name = f"{package.replace('-', '_')}-{version}-"
    if not (found := list(WHEELS.glob(f"{name}*.whl"))):
        lock = WHEELS / f"{name}.txt"
        lock.write_text(f"{package}=={version} {' '.join(f'--hash=sha256:{each}' for each in hashes)}\n")
        argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*argv, "--require-hashes", "-r", str(lock), "-d", str(WHEELS)], check=True)
        found = list(WHEELS.glob(f"{name}*.whl"))
    return found[0]


def unpacked(into: Path, flashinfer: str) -> Path:
    """The packages as an image has them: libs-cu13 of the CUTLASS DSL, and FlashInfer's kernels."""
    step = next(each for each in b12x()["steps"] if "package" in each)
    with zipfile.ZipFile(wheel(step["package"], step["version"], step["sha256"])) as archive:
        archive.extractall(into)
    with zipfile.ZipFile(wheel("flashinfer-python", flashinfer, [FLASHINFER[flashinfer]])) as archive:
        archive.extractall(into, [name for name in archive.namelist() if "/gemm/kernels/" in name])
    return into


def b12x() -> dict[str, Any]:
    """The mod as it goes into an image."""
    found: dict[str, Any] = json.loads(dict(mods.files(["sm121-b12x"]))["mods/sm121-b12x/mod.json"])
    return found


def apply(mod: dict[str, Any], root: Path) -> tuple[int, str]:
    """Run apply.py as the build does; its exit code and its words."""
    file = root.parent / f"{mod['name']}.json"
    file.write_text(json.dumps(mod))
    done = subprocess.run([sys.executable, APPLY, file, root], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with what the CUTLASS DSL imports: none of it needs a GPU."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "numpy==2.4.6", "typing_extensions==4.16.0", "cuda-bindings==13.5.0"], check=True)
    return folder / "bin/python"


def asked(python: Path, root: Path, arch: str) -> str:
    """What the DSL's own check says to an architecture."""
    environment = {**os.environ, "CUTE_DSL_ARCH": arch, "PYTHONPATH": str(root / MMA).split("/cutlass/cute")[0]}
    done = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False, env=environment)
    return done.stdout.strip() or done.stderr


def test_b12x_on_the_real_wheels(tmp_path: Path, python: Path) -> None:
    root = unpacked(tmp_path / "packages", "0.6.9")
    assert asked(python, root, "sm_120a") == "admitted"
    assert "expects arch to be one of" in asked(python, root, "sm_121a")

    code, said = apply(b12x(), root)
    assert code == 0, said
    assert said.count(": applied") == 4 and said.count(": already") == 1
    assert asked(python, root, "sm_121a") == asked(python, root, "sm_120a") == "admitted"
    assert "expects arch to be one of" in asked(python, root, "sm_100a")
    gemm = (root / GEMM).read_text()
    compile(gemm, GEMM, "exec")
    assert 'if sm_version not in ("sm_120", "sm_120a", "sm_121", "sm_121a"):' in gemm
    assert 'sm_version=__import__("os").environ.get("CUTE_DSL_ARCH", "sm_120"),' in gemm

    patched = [(root / name).read_bytes() for name in (MMA, GEMM)]
    code, said = apply(b12x(), root)
    assert code == 0 and said.count(": already") == 5
    assert [(root / name).read_bytes() for name in (MMA, GEMM)] == patched


def test_b12x_refuses_the_release_that_renamed_the_file(tmp_path: Path) -> None:
    root = unpacked(tmp_path / "packages", "0.6.10")
    before = (root / MMA).read_bytes()
    code, said = apply(b12x(), root)
    assert code == 1 and "Traceback" not in said
    assert f"looked for line 1591 of {GEMM}: no such file; beside it is" in said
    assert "dense_blockscaled_gemm_sm120_b12x.py" in said
    assert (root / MMA).read_bytes() == before, "a mod that can't be done whole is not begun"


def test_b12x_changes_nothing_where_upstream_has_it(tmp_path: Path) -> None:
    root = tmp_path / "packages"
    (root / MMA).parent.mkdir(parents=True)
    (root / MMA).write_text("    admissible_archs = [\n        Arch.sm_120a,\n        Arch.sm_121a,\n    ]\n")
    newer = root / GEMM.replace("sm120.py", "sm120_b12x.py")
    newer.parent.mkdir(parents=True)
    newer.write_text('        if sm_version not in ("sm_120", "sm_121"):\n')
    info = root / "nvidia_cutlass_dsl_libs_cu13-4.5.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-cutlass-dsl-libs-cu13\nVersion: 4.5.2\n")
    code, said = apply(b12x(), root)
    assert code == 0 and said.count(": upstream") == 5


def mod(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"name": "m", "steps": [{"name": "s", "file": "a.py", "line": 2, "upstream": [], **each} for each in steps]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("one\nother\nthree\n", "looked in a.py, line 2, for `two`; found `other`"),
        ("one\n\n\ntwoo\n", "found ``; the nearest is line 4: `twoo`"),
        ("two\ntwo\n", "the text is there 2 times, once was expected"),
        ("one\n", "found `(the file ends before it)`"),
    ],
)
def test_a_file_that_changed_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    root = tmp_path / "packages"
    root.mkdir()
    (root / "a.py").write_text(text)
    code, words = apply(mod({"old": "two\n", "new": "2\n"}), root)
    assert code == 1 and said in words and "Traceback" not in words
    assert (root / "a.py").read_text() == text


def test_a_new_text_that_contains_the_old_one_is_put_in_once(tmp_path: Path) -> None:
    root = tmp_path / "packages"
    root.mkdir()
    (root / "a.py").write_text("one\ntwo\n")
    (root / "a.py").chmod(0o755)
    steps = mod({"old": "two\n", "new": "two\nthree\n"}, {"old": "one\n", "new": "ONE\n", "line": 1})
    assert apply(steps, root)[1].count("applied") == 2
    assert apply(steps, root)[1].count("already") == 2
    assert (root / "a.py").read_text() == "ONE\ntwo\nthree\n"
    assert (root / "a.py").stat().st_mode & 0o777 == 0o755


def test_an_image_with_mods_has_a_name_of_its_own() -> None:
    plain = Image("engine", "vllm/vllm-openai@sha256:x", "registry")
    modded = Image("engine", "vllm/vllm-openai@sha256:x", "registry", ("sm121-b12x",))
    assert modded.base == plain and modded.local != plain.local
    assert modded.local == Image("engine", "vllm/vllm-openai@sha256:x", "registry", ("sm121-b12x",)).local
    dockerfile = dict(mods.context(modded.mods, plain.local))["Dockerfile"].decode()
    assert dockerfile.startswith(f"FROM {plain.local}\n")
    assert "RUN python3 /opt/tandem/mods/apply.py /opt/tandem/mods/sm121-b12x/mod.json" in dockerfile


def test_a_changed_mod_makes_another_image(tmp_path: Path) -> None:
    folder = tmp_path / "fix"
    folder.mkdir()
    (folder / "run.sh").write_text("true\n")
    image = Image("engine", "x", "registry", (str(folder),))
    first = image.local
    (folder / "run.sh").write_text("false\n")
    assert replace(image).local != first
    context = dict(mods.context(image.mods, "base"))
    assert context["mods/fix/run.sh"] == b"false\n" and b"&& ./run.sh" in context["Dockerfile"]


def test_the_cutlass_image_gets_its_mod() -> None:
    image = Image("engine", "x", "build:files/images/vllm-sm121-cutlass")
    names = [name for name, _ in image.build_files()]
    assert {"Dockerfile", "vllm.txt", "build.txt", "mods/apply.py", "mods/sm121-cutlass/mod.json"} <= set(names)


def test_a_mod_that_is_not_here_is_named() -> None:
    assert [each.problem for each in mods.findings(["sm121-b12x", "no-such"])] == ["the mod `no-such` is not here"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("a: [", "is not YAML"), ("name: x\nsteps: []\n", "steps"), ("name: x\nsteps: [{name: y, fil: z}]\n", "fil")],
)
def test_a_faulty_mod_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mod.yaml").write_text(text)
    with pytest.raises(Refusal) as refused:
        mods.load(tmp_path / "mod.yaml")
    assert said in str(refused.value)


def test_what_can_t_be_in_a_mod_s_folder_gets_a_line_each(tmp_path: Path) -> None:
    folder = tmp_path / "fix"
    (folder / "deep/__pycache__").mkdir(parents=True)
    (folder / ".git").mkdir()
    for name in ("run.sh", "deep/a file.py", "deep/__pycache__/a.pyc", ".git/config", ".hidden"):
        (folder / name).write_text("true\n")
    (folder / "again.py").symlink_to("deep/a file.py")
    assert mods.findings([str(folder)]) == []
    names = [name for name, _ in mods.files([str(folder)])]
    assert names == ["mods/apply.py", *(f"mods/fix/{n}" for n in (".hidden", "again.py", "deep/a file.py", "run.sh"))]

    os.mkfifo(folder / "pipe")
    (folder / "out.py").symlink_to("/etc/hostname")
    (folder / "gone.py").symlink_to("nowhere")
    (folder / "loop.py").symlink_to("loop.py")
    (folder / "folder").symlink_to("deep")
    (folder / "two\nlines").write_text("")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.py")).write_text("")
    said = [each.problem for each in mods.findings([str(folder)])]
    assert sorted(said) == sorted(
        f"the mod `{folder}`: {problem}"
        for problem in (
            "its folder is a link to deep",
            "its gone.py is a link to nowhere",
            "its loop.py is a link to loop.py",
            "its out.py is a link to /etc/hostname",
            "its pipe is no file",
            r"the name of its file 'two\nlines' can't be copied",
            r"the name of its file '\udcff.py' can't be copied",
        )
    )


@pytest.mark.parametrize("name", ["a b", "a;b", "$x", "-x", "ä", "a\nb", '"'])
def test_a_folder_with_an_odd_name_is_refused_before_a_build(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "run.sh").write_text("true\n")
    found = mods.findings([str(tmp_path / name)])
    assert len(found) == 1 and f"its name is {name!r}" in found[0].problem


def test_two_mods_of_one_name_are_refused_and_one_twice_is_not(tmp_path: Path) -> None:
    for place in ("a/fix", "b/fix"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "run.sh").write_text("true\n")
    (tmp_path / "c").symlink_to("a")
    one, two, same = (str(tmp_path / f"{place}/fix") for place in "abc")
    assert [each.problem for each in mods.findings([one, two])] == [f"two mods have the name `fix`: {one} and {two}"]
    assert mods.findings([one, same]) == []


def test_a_mod_of_a_size_that_no_mod_has_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fix").mkdir()
    (tmp_path / "fix/run.sh").write_text("true\n")
    with (tmp_path / "fix/weights").open("wb") as file:
        file.truncate(300 << 20)
    assert [each.problem for each in mods.findings([str(tmp_path / "fix")])] == [
        f"the mod `{tmp_path / 'fix'}`: it is 300 MiB, a mod is 256 at most"
    ]


def test_a_mod_is_the_same_image_wherever_it_was_found(tmp_path: Path) -> None:
    names = []
    for place in ("here", "there"):
        (tmp_path / place / "fix").mkdir(parents=True)
        (tmp_path / place / "fix/run.sh").write_text("true\n")
        names.append(Image("engine", "x", "registry", (str(tmp_path / place / "fix"),)).local)
    assert names[0] == names[1]
