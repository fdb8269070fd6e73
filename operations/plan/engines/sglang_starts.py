"""The lines by which SGLang's start is known (logs of 0.4 to 0.5 that others have published), and its loaders."""

from __future__ import annotations

from collections.abc import Mapping

from operations.plan.engines.loaders import Loader
from operations.plan.engines.starts import AUTOTUNER, Mark

STARTS: tuple[Mark, ...] = (
    Mark(r"Load weight begin\.", then="weights"),
    Mark(r"Load weight end\..*mem usage=(?P<gib>\d+(?:\.\d+)?) GB", was="weights", then="warm-up"),
    Mark(r"Load weight end\.", was="weights", then="warm-up"),
    Mark(r"Running FlashInfer autotune", then="autotune"),
    *AUTOTUNER,
    # The second spelling is that of builds behind 0.5.10.
    Mark(r"(?i)Capture (?:[\w-]+ )*cuda graph begin", then="graphs"),
    Mark(r"(?i)Capture (?:[\w-]+ )*cuda graph end", was="graphs", then="warm-up"),
    Mark(r"Application startup complete|The server is fired up", then="server"),
)
#: Flags by which a recipe says its own; these two are words of 0.5.23.
LOADS: tuple[str, ...] = ("load-format", "weight-loader-disable-mmap", "weight-loader-prefetch-checkpoints")
LOADERS: Mapping[str, Loader] = {
    "eager": Loader(flags=("--weight-loader-disable-mmap",), source="files/vocabularies/sglang-0.5.23.json"),
    "prefetch": Loader(flags=("--weight-loader-prefetch-checkpoints",), source="files/vocabularies/sglang-0.5.23.json"),
}
