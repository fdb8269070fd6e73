"""`make audit`: what the weights of the recipe's models are made of, from the head's store. It needs the head alone."""

from typing import Any

from pyinfra import host, inventory

from operations import reach
from operations.plan.wanted import wanted
from operations.verbs.report import audit_table, everywhere, refusals_told, the_head

if reach.speaks(host, inventory):
    with refusals_told():
        knobs, recipe = wanted(dict(host.data.dict()))
    for model in recipe.models:
        # A tokenizer and a configuration have none.
        if model.kind != "files":
            lies: dict[str, Any] = {"folder": model.folder, "revision": model.revision or "none"}
            audit_table(everywhere(the_head(), "audit", store=knobs.model_store, **lies))
