"""`make prune`: remove images of Tandem's that neither the plan nor a unit needs. Models and caches stay."""

from pyinfra import host, inventory

from operations.plan.images import needed
from operations.plan.wanted import wanted
from operations.verbs.report import everywhere, pruned_lines, refusals_told, say

if host.name == next(iter(inventory)).name:
    with refusals_told():
        knobs, recipe = wanted(dict(host.data.dict()))
        keep = needed(recipe, knobs)
    say(pruned_lines(everywhere(list(inventory), "old_images", keep=keep, remove=True)))
