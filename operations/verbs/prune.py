"""`tandem prune`: remove images of Tandem's that neither the plan nor a unit needs. Models and caches stay."""

from pyinfra import host

from operations.node.unit import old_images
from operations.plan.recipes.images import needed
from operations.plan.wanted import wanted
from operations.runner.remote import ask_or_none
from operations.runner.run import this_run
from operations.steps import lock
from operations.verbs.report import absent_lines, everywhere, pruned_lines, refusals_told, say
from operations.wire.unit import OldImages

run = this_run()
if run.speaks(host):
    with refusals_told():
        declared = wanted(dict(host.data.dict()))
        keep = needed(declared.pairs)
    # A deploy puts images onto nodes that no unit needs yet.
    with lock.taken(run):
        answers: dict[str, OldImages] = everywhere(
            run, run.answering, lambda host: ask_or_none(host, old_images.main, keep, remove=True)
        )
    say([*pruned_lines(answers), *absent_lines(run)])
