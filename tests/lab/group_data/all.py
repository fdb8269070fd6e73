"""The lab's knobs: only what differs from group_data/all.py at the top of the repository."""

from tests.lab import images as _images
from tests.lab import loading as _loading
from tests.lab import settings as _settings

# With LAB_LOAD_S=600 in the environment the model takes ten minutes more to load, as a real one does.
recipe = _loading.recipe()
# This machine shall reach the proxy, and the lab's management network leads nowhere else.
proxy_bind = "management"

# A node has no registry, no Hub and no route to the outside: everything lies on the head.
engine_image_from = f"archive:{_settings.ARTEFACTS_ON_HEAD}/{_images.ENGINE.archive.name}"
proxy_image_from = f"archive:{_settings.ARTEFACTS_ON_HEAD}/{_images.PROXY.archive.name}"
proxy_image = _images.PROXY.tag
model_from = f"{_settings.ARTEFACTS_ON_HEAD}/hub"

# The tiny model answers at once, and these nodes have a fifth of a Spark's memory between them.
canary_deadline = 2.0
memory_floor_gib = 1.0
# Most deploys of the lab are about something else: who wants the questions says prove=new.
prove = "off"
