"""`tandem models`, and its `rm`, `pin`, `unpin` and `prune`: what lies on the nodes' disks, and what goes.

`_do` says which; names are in WORDS. `rm` and `prune` say what would go, as JSON. With `_remove` it goes, as far as the
owner has seen it (SHOWN).
"""

import json
from contextlib import nullcontext

from pyinfra import host
from pyinfra.api.exceptions import DeployError

from operations.plan import disks
from operations.plan.config.refusal import Refusal
from operations.plan.wanted import wanted
from operations.runner.run import this_run
from operations.steps import lock
from operations.verbs import disk_table
from operations.verbs.key_words import given, refused
from operations.verbs.report import absent_lines, refusals_told, say, say_json, wants_json

run = this_run()
if run.speaks(host):
    with refusals_told():
        declared = wanted(dict(host.data.dict()))
    do, store, words = host.data.get("_do") or "", declared.knobs.model_store, json.loads(given("WORDS") or "[]")
    removes = bool(host.data.get("_remove"))
    problems = list[str]()
    with lock.taken(run) if removes or do.endswith("pin") else nullcontext():
        shelves = disk_table.shelves(run, store)
        every = disks.things(declared, shelves)
        try:
            chosen = disks.named(words, every, declared, disk_table.recipe_needs)
            if do == "rm":
                disks.check_removal(chosen)
        except Refusal as refusal:
            raise refused(refusal) from None
        if do == "prune":
            chosen = [each for each in every if not each.stays]
        if not do:
            if wants_json():
                say_json(nodes=disk_table.document(every, shelves), absent=absent_lines(run))
            else:
                disk_table.show(every, shelves)
                say(absent_lines(run))
        elif do.endswith("pin"):
            lines, problems = disk_table.pinned(run, chosen, do == "pin")
            say([*lines, *absent_lines(run)])
        elif removes:
            shown = json.loads(given("SHOWN"))
            lines, problems = disk_table.removed(run, store, disks.approved(chosen, shown), shown)
            say(lines)
        else:
            say_json(**disk_table.going(chosen, every), absent=absent_lines(run))
    if problems:
        raise DeployError("\n".join(problems))
