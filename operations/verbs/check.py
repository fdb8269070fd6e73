"""`tandem check`: everything that a deploy checks before its first change, and the recipe against the image."""

from pyinfra import host

from bench.advise.against import against
from operations.runner.run import this_run
from operations.steps import preflight, recipe
from operations.verbs.report import absent_lines, say

run = this_run()
preflight.settle(run, advice=against)
if run.speaks(host):
    say([*recipe.checked(run, host), *absent_lines(run, topology=run.plan.knobs.topology)])
