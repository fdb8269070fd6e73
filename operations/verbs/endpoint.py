"""`make endpoint`: the proxy's URL and key, for scripts: `eval "$(make -s endpoint)"`. It needs the head alone."""

from pyinfra import host, inventory
from pyinfra.api.exceptions import DeployError

from operations import reach
from operations.plan.absence import told
from operations.verbs.report import endpoint_lines, everywhere

if reach.speaks(host, inventory):
    head = next(iter(inventory))
    for absence in reach.absent(inventory):
        if absence.name == head.name:
            raise DeployError(f"only the head knows: {told(absence)}")
    endpoint_lines(everywhere([head], "endpoint", deadline_s=60))
