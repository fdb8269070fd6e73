"""The lab of virtual machines: its inventory and its knobs, with llama.cpp in the place of vLLM."""
