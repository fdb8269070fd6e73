"""`make audit`: what the weights of the recipe's model are made of, from the head's store."""

from pyinfra import host, inventory
from pyinfra.api.exceptions import DeployError

from operations.plan.refusal import Refusal
from operations.plan.wanted import wanted
from operations.verbs.report import audit_table, everywhere

if host.name == next(iter(inventory)).name:
    try:
        knobs, recipe = wanted(dict(host.data.dict()))
    except Refusal as refusal:
        raise DeployError(str(refusal)) from None
    where = {"store": knobs.model_store, "folder": recipe.model.folder, "revision": recipe.model.revision or "none"}
    audit_table(everywhere(list(inventory)[:1], "audit", **where))
