"""`tandem audit`: what the weights of the recipes' models are made of, from the head's store. The head is asked."""

from functools import partial

from pyinfra import host
from pyinfra.api.host import Host

from operations.node.model import audit
from operations.plan.declared import chosen
from operations.plan.wanted import wanted
from operations.runner.remote import ask_or_none
from operations.runner.run import this_run
from operations.verbs.report import audit_table, everywhere, refusals_told, the_head
from operations.wire.model import Audit


def _audited(store: str, folder: str, revision: str, on: Host) -> Audit | None:
    return ask_or_none(on, audit.main, store, folder, revision)


run = this_run()
if run.speaks(host):
    with refusals_told():
        declared = wanted(dict(host.data.dict()))
        models = chosen(declared, host.data.get("_model"))
    # A tokenizer and a configuration have none.
    for files in {each.at: each for model in models for each in model.recipe.models if each.kind != "files"}.values():
        lies = (declared.knobs.model_store, files.folder, files.revision or "none")
        audit_table(everywhere(run, the_head(run), partial(_audited, *lies)))
