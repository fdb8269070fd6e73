"""`make endpoint`: URLs and key of the proxies, for scripts: `eval "$(make -s endpoint)"`. One node will do."""

from pyinfra import host

from operations.node.door import endpoint
from operations.remote import ask_or_none
from operations.run import this_run
from operations.verbs.report import endpoint_lines, everywhere

run = this_run()
if run.speaks(host):
    endpoint_lines(everywhere(run, run.answering, lambda each: ask_or_none(each, endpoint.main), 60))
