"""Virtual machines with vLLM's double: `MACHINES=vm pyinfra -y tests/lab/on_vllm_double/inventory.py deploy.py`."""

from tests.lab.on_machines.inventory import nodes as _nodes

nodes = _nodes
