"""Ways in which vLLM loads weights, as the knob `loader` names them (values of `load-format` and others, 0.17 to 0.33).

`auto` takes the first of those that it may take and that the image has.
"""

from __future__ import annotations

from collections.abc import Mapping

from operations.plan.engines.loaders import Loader

#: Flags by which a recipe says its own.
LOADS: tuple[str, ...] = ("load-format", "safetensors-load-strategy", "model-loader-extra-config")
LOADERS: Mapping[str, Loader] = {
    "instanttensor": Loader(
        flags=("--load-format", "instanttensor"),
        package="instanttensor",
        # Merged behind 0.17.1, in March 2026.
        since="0.19.0",
        # Its `copy` is asked for since 0.26: an image with 0.1.8 ends at its start.
        at_least=(("0.26.0", "0.1.9"),),
        fault=r"instanttensor",
        beside_gib=9,
        is_chosen=True,
        source="vLLM #36139, #46868; timothystewart6/vllm-gb10 #67; over nodes eugr/spark-vllm-docker #377",
    ),
    "fastsafetensors": Loader(
        flags=("--load-format", "fastsafetensors"),
        package="fastsafetensors",
        # It took all memory of a Spark with this mixture of experts.
        unsafe=r"gemma-?4.*a\d+b",
        # Where GPUDirect Storage is absent it warns, reads without, and is as fast: that is no fault.
        fault=r"fastsafetensors",
        # Three and a half of the files of 4 GiB it was measured with; larger ones may take more: no plan knows them.
        beside_gib=14,
        is_chosen=True,
        source="vLLM #10647; eugr/spark-vllm-docker #205, over nodes with Ray #29; on a GB10 alone #200",
    ),
    "runai_streamer": Loader(
        flags=("--load-format", "runai_streamer"),
        package="runai_model_streamer",
        fault=r"runai_model_streamer|runai_safetensors",
        source="vllm/model_executor/model_loader/runai_streamer_loader.py; nobody tells of it on a GB10",
    ),
    "eager": Loader(
        flags=("--safetensors-load-strategy", "eager"),
        source="vLLM #24469: each file is read whole into memory first, which on a GB10 is the GPU's too",
    ),
    "prefetch": Loader(
        flags=("--safetensors-load-strategy", "prefetch"),
        since="0.19.0",
        source="vllm/config/load.py: files are read into the page cache beside the load; it wants room for all of them",
    ),
}
