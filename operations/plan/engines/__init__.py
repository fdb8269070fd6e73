"""The programs that serve a model. A further one is a file beside these, and a line here."""

from __future__ import annotations

from operations.plan.engines.base import Engine
from operations.plan.engines.tensorrt_llm import TensorRtLlm
from operations.plan.engines.vllm import Vllm

ENGINES: dict[str, Engine] = {"vllm": Vllm(), "tensorrt-llm": TensorRtLlm()}
