"""`make endpoint`: URLs and key of the proxies, for scripts: `eval "$(make -s endpoint)"`. One node will do."""

from pyinfra import host

from operations.run import this_run
from operations.shapes.unit import Endpoint
from operations.verbs.report import absent_lines, endpoint_lines, everywhere, say_json, wants_json

run = this_run()
if run.speaks(host):
    answers: dict[str, Endpoint] = everywhere(run, run.answering, "door.endpoint", deadline_s=60)
    if wants_json():
        say_json(nodes=answers, absent=absent_lines(run))
    else:
        endpoint_lines(answers)
