"""`tandem status`: what runs on each node, since when, from which image, and whether it answers.

Ends with 0 where one node at least has answered.
"""

from collections import defaultdict

from pyinfra import host, inventory

from operations.node.look import status
from operations.paths import ALERTMANAGER, PROMETHEUS
from operations.plan.cluster.served_model import unit_of
from operations.plan.config.refusal import Refusal
from operations.plan.declared import chosen
from operations.plan.recipes.images import needed
from operations.plan.services import registry
from operations.plan.wanted import wanted
from operations.runner.remote import ask_or_none
from operations.runner.run import this_run
from operations.verbs.report import absent_lines, everywhere, say_json, wants_json
from operations.verbs.status_table import status_table
from operations.wire.unit import Status

#: Seconds for a node to say how it is: it gives its services some, and Docker may be slow.
DEADLINE_S = 60

run = this_run()
if run.speaks(host):
    keep: list[str] | None = None
    declared, only = defaultdict[str, list[str]](list), list[str]()
    try:
        names = [each.name for each in inventory]
        want = wanted(dict(host.data.dict()))
        # With --model its engines alone, and whether they are there.
        models = chosen(want, host.data.get("_model"))
        only = [unit_of(each.name) for each in models] if host.data.get("_model") else []
        for each in models if want.knobs.models else ():
            for name in each.lies_on(names):
                declared[name].append(unit_of(each.name))
        if want.knobs.runs_prometheus and not only:
            declared[names[0]] += [PROMETHEUS, ALERTMANAGER]
        keep = needed(want.pairs)
    except Refusal:
        # The state of nodes is told whatever the knobs say; which images are old is then not known.
        pass
    units = list(registry.to_tell())
    answers: dict[str, Status] = everywhere(
        run,
        run.answering,
        lambda each: ask_or_none(each, status.main, units, keep, declared[each.name], only),
        DEADLINE_S,
    )
    if wants_json():
        say_json(nodes=answers, absent=absent_lines(run, answers))
    else:
        status_table(answers, absent_lines(run, answers))
