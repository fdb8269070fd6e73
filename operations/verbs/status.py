"""`make status`: what runs on each node, since when, from which image, and whether it answers.

Ends with 0 where one node at least has answered.
"""

from pyinfra import host, inventory

from operations import reach
from operations.plan.images import needed
from operations.plan.places import ALERTMANAGER, PROMETHEUS
from operations.plan.refusal import Refusal
from operations.plan.wanted import wanted
from operations.verbs.report import absent_lines, everywhere, status_table

#: Seconds for a node to say how it is: it gives its services some, and Docker may be slow.
DEADLINE_S = 60

if reach.speaks(host, inventory):
    keep: list[str] | None = None
    topology, declared = "", dict[str, dict[str, list[str]]]()
    try:
        knobs, recipe = wanted(dict(host.data.dict()))
        if knobs.keeps:
            declared = {next(iter(inventory)).name: {"declared": [PROMETHEUS, ALERTMANAGER]}}
        keep, topology = needed(recipe, knobs), knobs.topology
    except Refusal:
        # The state of nodes is told whatever the knobs say; which images are old is then not known.
        pass
    answers = everywhere(reach.answering(inventory), "status", DEADLINE_S, declared, keep=keep)
    status_table(answers, absent_lines(answers, topology))
