"""`make check`: everything that a deploy checks before its first change, and the recipe against the image."""

from pyinfra import host, inventory

from bench.advise.against import against
from operations import judging, preflight, reach
from operations.verbs.report import absent_lines, say

plan = preflight.settle(advice=against)
if reach.speaks(host, inventory):
    say([*judging.checked(host, plan), *absent_lines(topology=plan.knobs.topology)])
