"""The lab's images: the real vLLM (CPU build) with Ray, a double of it, LiteLLM and llama-server. Built once, kept by
hash.

Those of another architecture are built the same way, their programs emulated.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.lab import builder, rootfs
from tests.lab.desk import OWN, cpu
from tests.lab.settings import ARTEFACTS, CACHE, DEBIAN_SUITE
from tests.lab.shell import run, run_with_progress, say, step

REPOSITORY = Path(__file__).parents[2]
#: The CPU wheels of torch are not on PyPI; they come from a folder (PIP_FIND_LINKS) or from here.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
#: Python of the images: Debian bookworm's.
PYTHON = "3.11"


@dataclass(frozen=True)
class LabImage:
    """An image and the folder that it is made from (`Dockerfile`, `requirements.lock`, ...)."""

    name: str
    context: Path
    #: Of Debian, in its base.
    packages: tuple[str, ...] = tuple(rootfs.IMAGE_PACKAGES)
    suite: str = DEBIAN_SUITE
    arch: str = OWN

    def on(self, arch: str) -> LabImage:
        """The same for an architecture, by Debian's name."""
        return replace(self, arch=arch)

    @property
    def digest(self) -> str:
        """Hash of everything that the image is made from."""
        other = "" if self.arch == OWN else self.arch
        content = hashlib.sha256(f"{self.tag} {self.suite} {list(self.packages)}{other}".encode())
        for path in sorted(p for p in self.context.rglob("*") if p.is_file()):
            content.update(str(path.relative_to(self.context)).encode() + b"\0" + path.read_bytes())
        return content.hexdigest()[:12]

    @property
    def tag(self) -> str:
        """Its name; the archive's name carries the hash."""
        return f"tandem-lab/{self.name}:cpu"

    @property
    def archive(self) -> Path:
        """What `docker save` wrote."""
        return ARTEFACTS / f"{self.name}-{self.digest}.tar"


ENGINE = LabImage("engine", REPOSITORY / "tests/lab/images/engine")
PROXY = LabImage("proxy", REPOSITORY / "files/images/proxy", (*rootfs.IMAGE_PACKAGES, *rootfs.PROXY_PACKAGES))
#: Debian's llama-server, and no Python: as the images of llama.cpp's makers.
LLAMA = LabImage("llama", REPOSITORY / "tests/lab/images/llama", tuple(rootfs.LLAMA_PACKAGES), rootfs.LLAMA_SUITE)
#: vLLM's ranks and protocols without a model; its base is the proxy's, which is made anyway.
VLLM_DOUBLE = LabImage("vllm-double", REPOSITORY / "tests/lab/images/vllm_double", PROXY.packages)


def ensure(wanted: Sequence[LabImage] = (ENGINE, PROXY)) -> None:
    """Build what is not there yet."""
    missing = [image for image in wanted if not image.archive.exists()]
    if not missing:
        return
    for image in missing:
        say(f"the {image.name} image is built once and kept by the hash of what it is made from: {image.digest}")
        _download_wheels(image)
    bases = {image: rootfs.image_base(list(image.packages), image.suite, image.arch) for image in missing}
    with builder.daemon():
        for image, base in bases.items():
            base_tag = f"tandem-lab/base:{base.stem.rpartition('-')[2]}"
            aside = base.with_suffix(".image")
            write_base(aside, base, base_tag, image.arch)
            run(*builder.docker("load", "--quiet", "--input", aside))
            aside.unlink()
            _build(image, base_tag)
    for image in missing:
        shutil.rmtree(_wheels(image), ignore_errors=True)
    shutil.rmtree(builder.ROOT, ignore_errors=True)


def write_base(to: Path, base: Path, tag: str, arch: str) -> None:
    """An archive for `docker load` whose one layer is a tarball. (What `docker import` makes is of this machine's
    architecture before Docker 23.)
    """
    with base.open("rb") as content:
        layer = hashlib.file_digest(content, "sha256").hexdigest()
    made = "1970-01-01T00:00:00Z"
    config = {
        "architecture": arch,
        "os": "linux",
        "created": made,
        "config": {},
        "history": [{"created": made, "created_by": "mmdebstrap"}],
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]
    with tarfile.open(to, "w") as archive:
        archive.add(base, "layer.tar")
        for name, value in (("config.json", config), ("manifest.json", manifest)):
            told = json.dumps(value).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(told)
            archive.addfile(entry, io.BytesIO(told))


def _wheels(image: LabImage) -> Path:
    return CACHE / f"{image.name}-wheels-{image.digest}"


def _download_wheels(image: LabImage) -> None:
    done = _wheels(image)
    if done.exists() or not (image.context / "requirements.lock").exists():
        return
    aside = done.with_suffix(".part")
    # The platforms that a manylinux wheel may name, newest first: pip takes each only when it is told.
    machine = cpu(image.arch)
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(36, 4, -1)]
    platforms += [f"manylinux2014_{machine}", f"manylinux2010_{machine}", f"linux_{machine}"]
    argv: list[str | Path] = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    argv += ["--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp", "--dest", aside]
    argv += [f"--platform={platform}" for platform in platforms]
    argv += ["--abi=cp311", "--abi=abi3", "--abi=none", "-r", image.context / "requirements.lock"]
    if image is ENGINE and not os.environ.get("PIP_FIND_LINKS"):
        argv += ["--extra-index-url", TORCH_CPU_INDEX]
    with step(f"downloading the {image.name} image's wheels"):
        run_with_progress(argv, "pip download", CACHE / f"{image.name}-wheels.log")
        aside.rename(done)


def _build(image: LabImage, base_tag: str) -> None:
    context = CACHE / f"{image.name}-context"
    if context.exists():
        shutil.rmtree(context)
    shutil.copytree(image.context, context)
    if _wheels(image).exists():
        # Hard links: the wheels are large and on the same disk.
        shutil.copytree(_wheels(image), context / "wheels", copy_function=os.link, dirs_exist_ok=True)
    with step(f"building {image.tag} for {image.arch} (installs and compiles; a few minutes for the engine)"):
        argv = builder.docker("build", "--network", "none", "--build-arg", f"BASE={base_tag}")
        argv += ["--platform", f"linux/{image.arch}", "--build-arg", "PIP_NO_INDEX=1", "--tag", image.tag, context]
        run_with_progress(
            rootfs.emulating(image.arch, argv),
            "docker build",
            CACHE / f"{image.name}-build.log",
            env={**os.environ, "DOCKER_BUILDKIT": "0"},
        )
    with step(f"saving {image.tag}"):
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        aside = image.archive.with_suffix(".part")
        run(*builder.docker("save", "--output", aside, image.tag))
        aside.rename(image.archive)
    shutil.rmtree(context)
