"""What vLLM keeps below /root/.cache, release by release (read in the wheels of 0.17.1 to 0.33.0)."""

from __future__ import annotations

from operations.plan.engines.kept import LIBRARIES, Cache

AUTOTUNE = "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR"
#: 0.17 to 0.26 keep no file of the autotuner's for several ranks: up to 0.21 there is none; from 0.22 to 0.24
#: _FLASHINFER_USE_PERSISTENT_CACHE is off; in 0.25 and 0.26 it is off where the world has several ranks.
CACHES: tuple[Cache, ...] = (
    *LIBRARIES,
    Cache(
        path="vllm/flashinfer_autotune_cache",
        ranks="alike",
        key="all of the configuration and the GPU's name; entries of a mixture of experts also by the rank",
        source="vllm/model_executor/warmup/kernel_warmup.py, flashinfer_autotune: rank 0 reads the file and hands it "
        "to all; what it finds it does not time, and the others wait for its times (vLLM #57423)",
        since="0.27.0",
        before="0.32.0",
        variable=AUTOTUNE,
    ),
    Cache(
        path="vllm/flashinfer_autotune_cache",
        ranks="own",
        key="all of the configuration, the GPU's name and the rank",
        source="vllm/model_executor/warmup/kernel_warmup.py: a file for each rank, which none uses unless all have one",
        since="0.32.0",
        variable=AUTOTUNE,
    ),
    Cache(
        path="vllm/torch_compile_cache",
        ranks="own",
        key="all of the configuration, the code that was traced, the compiler and the rank; Triton's kernels with it",
        source="vllm/compilation/backends.py (rank_N_M) and compiler_interface.py (TRITON_CACHE_DIR): no collective",
    ),
    Cache(
        path="vllm/startup_plan",
        ranks="alike",
        key="all of the configuration, the GPU's name and memory, and the rank",
        source="vllm/v1/worker/startup_plan.py and gpu_worker.py: a rank that has it leaves out the profile of the "
        "graphs, in which the others wait for it",
        since="0.26.0",
        switch="VLLM_ENABLE_STARTUP_PLAN",
    ),
    Cache(
        path="vllm/modelinfos",
        ranks="own",
        key="the class of the model and its code",
        source="vllm/model_executor/models/registry.py: what a class can do, asked before ranks meet",
        by_name=True,
    ),
    Cache(
        path="vllm/deep_gemm",
        ranks="own",
        key="each kernel's code",
        source="vllm/utils/deep_gemm.py: compiled kernels, no collective",
        by_name=True,
    ),
)
