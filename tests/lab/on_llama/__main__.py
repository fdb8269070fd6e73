"""`python -m tests.lab.on_llama`: makes the image and the model; the lab's hosts see both at once."""

from tests.lab import gguf, images

gguf.ensure()
images.ensure((images.LLAMA,))
