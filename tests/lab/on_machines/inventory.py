"""Virtual machines: `MACHINES=vm pyinfra -y tests/lab/on_machines/inventory.py deploy.py`."""

from tests.lab import desk as _desk
from tests.lab import settings as _settings
from tests.lab.qemu import accelerator as _accelerator
from tests.lab.qemu import patience as _patience

if _settings.MACHINES != "vm":
    # Of an exception pyinfra would print a traceback.
    raise SystemExit("these are virtual machines: set MACHINES=vm, or take tests/lab/on_llama/inventory.py")

# It ends where there are no hosts.
from tests.lab.inventory import nodes as _nodes

nodes = _nodes
if _accelerator.is_emulated(_desk.remembered().arch):
    _patience.take()
