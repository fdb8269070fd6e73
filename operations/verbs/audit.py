"""`make audit`: what the weights of the recipes' models are made of, from the head's store. It needs the head alone."""

from collections.abc import Mapping
from typing import Any

from pyinfra import host

from operations.plan.declared import chosen
from operations.plan.wanted import wanted
from operations.run import this_run
from operations.verbs.report import audit_table, everywhere, refusals_told, the_head

run = this_run()
if run.speaks(host):
    with refusals_told():
        declared = wanted(dict(host.data.dict()))
        models = chosen(declared, host.data.get("_model"))
    # A tokenizer and a configuration have none.
    for files in {each.key: each for model in models for each in model.recipe.models if each.kind != "files"}.values():
        lies: Mapping[str, Any] = {"folder": files.folder, "revision": files.revision or "none"}
        audit_table(everywhere(run, the_head(run), "model.audit", store=declared.knobs.model_store, **lies))
