"""`make audit`: what the weights of the recipe's model are made of, from the head's store. It needs the head alone."""

from typing import Any

from pyinfra import host, inventory

from operations import reach
from operations.plan.wanted import wanted
from operations.verbs.report import audit_table, everywhere, refusals_told, the_head

if reach.speaks(host, inventory):
    with refusals_told():
        knobs, recipe = wanted(dict(host.data.dict()))
    revision = recipe.model.revision or "none"
    where: dict[str, Any] = {"store": knobs.model_store, "folder": recipe.model.folder, "revision": revision}
    audit_table(everywhere(the_head(), "audit", **where))
