"""The knobs of virtual machines, with ranks: vLLM's double by the lab's own recipe."""

from tests.lab import desk as _desk
from tests.lab import images as _images
from tests.lab import loading as _loading
from tests.lab import settings as _settings
from tests.lab.on_machines.group_data.all import *  # noqa: F403

_double = _images.VLLM_DOUBLE.on(_desk.remembered().arch)

# A double takes less than vLLM, of machines that have little.
_needs = {"gpu": False, "memory_gib": {"solo": 1, "cluster": 1}, "model_disk_gib": 0.01, "image_disk_gib": 1}
# A start may take twenty minutes more where it is emulated.
recipe = _loading.longer(_loading.NAME, 1200, image=_double.tag, needs=_needs)
engine_image_from = f"archive:{_settings.ARTEFACTS_ON_HEAD}/{_double.archive.name}"
topology = "cluster"
executor = "mp"
