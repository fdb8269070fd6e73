"""Programs that run on a node, from memory: nothing of them is installed there. Standard library only, Python 3.10+."""
