"""`make endpoint`: URLs and key of the proxies, for scripts: `eval "$(make -s endpoint)"`. One node will do."""

from pyinfra import host, inventory

from operations import reach
from operations.verbs.report import endpoint_lines, everywhere

if reach.speaks(host, inventory):
    endpoint_lines(everywhere(reach.answering(inventory), "door.endpoint", deadline_s=60))
