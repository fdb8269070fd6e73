"""The lab with llama.cpp in the place of vLLM: its inventory, its knobs, and what they need (`python -m` makes it)."""
