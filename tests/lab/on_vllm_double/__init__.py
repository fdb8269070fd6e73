"""Virtual machines with ranks: vLLM's double in the place of vLLM."""
