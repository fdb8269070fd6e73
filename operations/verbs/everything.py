"""`tandem down --all`: all that Tandem has put on the nodes, as JSON; with `_remove` it is removed, behind `down`."""

import json
import sys
from contextlib import nullcontext

from pyinfra import host
from pyinfra.api.exceptions import DeployError

from operations.node.unit import everything
from operations.plan.wanted import wanted
from operations.runner.remote import ask_or_none
from operations.runner.run import this_run
from operations.steps import lock
from operations.verbs.report import absent_lines, everywhere, refusals_told, say

run = this_run()
if run.speaks(host):
    with refusals_told():
        store = wanted(dict(host.data.dict())).knobs.model_store
    if away := absent_lines(run):
        raise DeployError("what is on a node that does not answer would stay: " + "; ".join(away))
    remove = bool(host.data.get("_remove"))
    with lock.taken(run) if remove else nullcontext():
        answers = everywhere(run, run.answering, lambda each: ask_or_none(each, everything.main, store, remove))
    if problems := [f"{name}: {problem}" for name, answer in answers.items() for problem in answer["problems"]]:
        raise DeployError("\n".join(problems))
    if remove:
        say(["all of it is gone; the addresses of the rails go with the next boot"])
    else:
        for name, answer in answers.items():
            for line in answer["stays"]:
                print(f"note: {name}: {line}", file=sys.stderr)
        say([json.dumps({name: answer["things"] for name, answer in answers.items()})])
