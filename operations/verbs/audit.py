"""`make audit`: what the weights of the recipe's model are made of, from the head's store."""

from pyinfra import host, inventory
from pyinfra.api.exceptions import DeployError

from operations.plan.knobs import read_knobs
from operations.plan.recipe import load_recipe
from operations.plan.refusal import Refusal
from operations.verbs.report import audit_table, everywhere

if host.name == next(iter(inventory)).name:
    try:
        knobs = read_knobs(dict(host.data.dict()))
        model = load_recipe(knobs.recipe).model
    except Refusal as refusal:
        raise DeployError(str(refusal)) from None
    where = {"store": knobs.model_store, "folder": model.folder, "revision": model.revision}
    audit_table(everywhere(list(inventory)[:1], "audit", **where))
