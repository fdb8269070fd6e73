"""The bench on two real GPUs of one host, with vLLM and LiteLLM as they come from the index: no Docker, no nodes.

`python -m tests.gpu --help`; docs/gpu says what it has shown.
"""
