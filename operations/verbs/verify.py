"""`make verify`: is the model whole on every node, and the same? DEEP=1 hashes every byte again."""

from pyinfra import host, inventory

from operations.plan.wanted import wanted
from operations.verbs.report import everywhere, refusals_told, verify_table

if host.name == next(iter(inventory)).name:
    with refusals_told():
        knobs, recipe = wanted(dict(host.data.dict()))
    hosts = list(inventory)[:1] if knobs.topology == "solo" else list(inventory)
    where = {"store": knobs.model_store, "folder": recipe.model.folder, "revision": recipe.model.revision or "none"}
    verify_table(everywhere(hosts, "model_verify", **where, deep=bool(host.data.get("_deep"))))
