"""`tandem endpoint`: URLs and key of the proxies, for scripts: `eval "$(tandem endpoint)"`. One node will do."""

from pyinfra import host

from operations.node.door import endpoint
from operations.runner.remote import ask_or_none
from operations.runner.run import this_run
from operations.verbs.report import absent_lines, endpoint_lines, everywhere, say_json, wants_json

run = this_run()
if run.speaks(host):
    answers = everywhere(run, run.answering, lambda each: ask_or_none(each, endpoint.main), 60)
    if wants_json():
        say_json(nodes=answers, absent=absent_lines(run))
    else:
        endpoint_lines(answers)
