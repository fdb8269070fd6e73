"""`make prune`: remove images of Tandem's that neither the plan nor a unit needs. Models and caches stay."""

from pyinfra import host, inventory
from pyinfra.api.exceptions import DeployError

from operations.plan.images import needed
from operations.plan.refusal import Refusal
from operations.plan.wanted import wanted
from operations.verbs.report import everywhere, pruned_lines, say

if host.name == next(iter(inventory)).name:
    try:
        knobs, recipe = wanted(dict(host.data.dict()))
        keep = needed(recipe, knobs)
    except Refusal as refusal:
        raise DeployError(str(refusal)) from None
    say(pruned_lines(everywhere(list(inventory), "old_images", keep=keep, remove=True)))
