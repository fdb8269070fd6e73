"""`tandem down --all`: all that Tandem has put on the nodes, as JSON; with `_remove` it is removed, behind `down`."""

import json

from pyinfra import host
from pyinfra.api.exceptions import DeployError

from operations import lock
from operations.plan.wanted import wanted
from operations.run import this_run
from operations.shapes.unit import Everything
from operations.verbs.report import absent_lines, everywhere, refusals_told, say

run = this_run()
if run.speaks(host):
    with refusals_told():
        store = wanted(dict(host.data.dict())).knobs.model_store
    if away := absent_lines(run):
        raise DeployError("what is on a node that does not answer would stay: " + "; ".join(away))
    remove = bool(host.data.get("_remove"))
    answers: dict[str, Everything]
    if remove:
        with lock.taken(run):
            answers = everywhere(run, run.answering, "unit.everything", store=store, remove=True)
    else:
        answers = everywhere(run, run.answering, "unit.everything", store=store)
    if problems := [f"{name}: {problem}" for name, answer in answers.items() for problem in answer["problems"]]:
        raise DeployError("\n".join(problems))
    if remove:
        say(["all of it is gone; the addresses of the rails go with the next boot"])
    else:
        say([json.dumps({name: answer["things"] for name, answer in answers.items()})])
