"""`make audit`: what the weights of the recipe's model are made of, from the head's store."""

from pyinfra import host, inventory

from operations.plan.wanted import wanted
from operations.verbs.report import audit_table, everywhere, refusals_told

if host.name == next(iter(inventory)).name:
    with refusals_told():
        knobs, recipe = wanted(dict(host.data.dict()))
    where = {"store": knobs.model_store, "folder": recipe.model.folder, "revision": recipe.model.revision or "none"}
    audit_table(everywhere(list(inventory)[:1], "audit", **where))
