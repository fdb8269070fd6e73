"""The lab's knobs, with llama.cpp's recipe and image."""

from tests.lab import images as _images
from tests.lab import settings as _settings

recipe = "lab-tiny-gguf"
topology = "replicas"
proxy_bind = "management"

engine_image_from = f"archive:{_settings.ARTEFACTS_ON_HEAD}/{_images.LLAMA.archive.name}"
proxy_image_from = f"archive:{_settings.ARTEFACTS_ON_HEAD}/{_images.PROXY.archive.name}"
proxy_image = _images.PROXY.tag
model_from = f"{_settings.ARTEFACTS_ON_HEAD}/hub"

canary_deadline = 2.0
memory_floor_gib = 1.0
# As in the lab's own.
prove = "off"
