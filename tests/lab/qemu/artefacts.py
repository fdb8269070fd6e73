"""What the head of machines deploys from: images and the model, on a disk of its own that it can't write."""

from __future__ import annotations

from tests.lab.qemu import image
from tests.lab.settings import ARTEFACTS, HOME
from tests.lab.shell import step

LABEL = "artefacts"
DISK = HOME / "artefacts.ext4"


def ensure(arch: str) -> None:
    """The disk, with images for an architecture: llama-server's, vLLM's double and the proxy's."""
    # Imported here: building needs packages that looking and breaking do not.
    from tests.lab import gguf, images, model

    model.ensure()
    gguf.ensure()
    images.ensure([each.on(arch) for each in (images.LLAMA, images.VLLM_DOUBLE, images.PROXY)])
    if is_whole():
        return
    with step("a disk of images and the model, for the head"):
        aside = DISK.with_suffix(".part")
        aside.unlink(missing_ok=True)
        image.write_disk(aside, ARTEFACTS, LABEL)
        # A machine that runs keeps the one before.
        aside.rename(DISK)


def is_whole() -> bool:
    """Whether nothing has come since it was made, and nothing has gone."""
    if not DISK.exists():
        return False
    made = DISK.stat().st_mtime
    return all(each.lstat().st_mtime <= made for each in (ARTEFACTS, *ARTEFACTS.rglob("*")))
