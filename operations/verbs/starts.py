"""`tandem starts`: how long the engines' last starts took, phase by phase, and how far those are that are under way.

Ends with 0 where one node at least has answered.
"""

from pyinfra import host

from operations.node.unit import starts
from operations.plan.cluster.served_model import unit_of
from operations.plan.declared import chosen
from operations.plan.wanted import wanted
from operations.runner.remote import ask_or_none
from operations.runner.run import this_run
from operations.verbs.report import absent_lines, everywhere, refusals_told, say_json, starts_table, wants_json
from operations.wire.starts import StartsTold

#: Seconds for a node to read its file, and the journal of what starts.
DEADLINE_S = 60

run = this_run()
if run.speaks(host):
    only = list[str]()
    if name := host.data.get("_model"):
        with refusals_told():
            only = [unit_of(each.name) for each in chosen(wanted(dict(host.data.dict())), name)]
    answers: dict[str, StartsTold] = everywhere(
        run, run.answering, lambda each: ask_or_none(each, starts.main, only), DEADLINE_S
    )
    if wants_json():
        say_json(nodes=answers, absent=absent_lines(run))
    else:
        starts_table(answers, absent_lines(run))
