"""The lab's nodes with llama.cpp: `pyinfra -y tests/lab/on_llama/inventory.py deploy.py`."""

from tests.lab.inventory import nodes as _nodes

nodes = _nodes
