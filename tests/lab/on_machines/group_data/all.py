"""The lab's knobs on virtual machines: llama.cpp's recipe, images of their architecture, and patience."""

from tests.lab import desk as _desk
from tests.lab import images as _images
from tests.lab import loading as _loading
from tests.lab import settings as _settings

_arch = _desk.remembered().arch
_archive = f"archive:{_settings.ARTEFACTS_ON_HEAD}"

# A start may take twenty minutes more where it is emulated.
recipe = _loading.longer("lab-tiny-gguf", 1200)
topology = "replicas"
proxy_bind = "management"

engine_image_from = f"{_archive}/{_images.LLAMA.on(_arch).archive.name}"
proxy_image_from = f"{_archive}/{_images.PROXY.on(_arch).archive.name}"
proxy_image = _images.PROXY.tag
model_from = f"{_settings.ARTEFACTS_ON_HEAD}/hub"

memory_floor_gib = 1.0
# As in the lab's own.
prove = "off"
