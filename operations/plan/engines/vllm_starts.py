"""The lines by which vLLM's start is known (read in 0.17 to 0.33; its own logs are among the tests: 0.32 on a CPU,
0.24 on an H100).
"""

from __future__ import annotations

from operations.plan.engines.starts import AUTOTUNER, Mark

#: In the order in which they come. `Model loading took` is the GPU's runner's, behind `Loading weights took`: what lies
#: between, where weights are put in order for kernels, is loading too. Its second runner (`Using V2 Model Runner`,
#: 0.24) says `Loading model from scratch`, and leaves `memory` out.
STARTS: tuple[Mark, ...] = (
    Mark(r"Starting to load model |Loading model from scratch|Loading drafter model", then="weights"),
    Mark(r"Loading weights took [\d.]+ seconds", was="weights", then="warm-up"),
    Mark(
        r"Model loading took (?P<gib>\d+(?:\.\d+)?) GiB (?:memory )?and [\d.]+ seconds", was="weights", then="warm-up"
    ),
    Mark(r"Dynamo bytecode transform time: (?P<s>\d+(?:\.\d+)?) s", was="compile", then="compile"),
    Mark(r"Directly load(?:ing)? (?:AOT compilation|the compiled graph)", was="compile", then="compile"),
    Mark(r"torch\.compile (?:took|takes) [\d.]+ s", was="compile", then="warm-up"),
    *AUTOTUNER,
    Mark(r"Capturing CUDA graphs", then="graphs"),
    Mark(r"Graph capturing finished in (?P<s>\d+) secs", was="graphs", then="warm-up"),
    Mark(r"init engine \(profile, create kv cache, warmup", then="server"),
)
