"""`make status`: what runs on each node, since when, from which image, and whether it answers."""

from pyinfra import host, inventory

from operations.plan.images import needed
from operations.plan.refusal import Refusal
from operations.plan.wanted import wanted
from operations.verbs.report import everywhere, status_table

if host.name == next(iter(inventory)).name:
    keep: list[str] | None = None
    try:
        knobs, recipe = wanted(dict(host.data.dict()))
        keep = needed(recipe, knobs)
    except Refusal:
        # The state of nodes is told whatever the knobs say; which images are old is then not known.
        pass
    status_table(everywhere(list(inventory), "status", keep=keep))
