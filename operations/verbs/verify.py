"""`make verify`: is the model whole on every node, and the same? DEEP=1 hashes every byte again."""

from pyinfra import host, inventory
from pyinfra.api.exceptions import DeployError

from operations.plan.refusal import Refusal
from operations.plan.wanted import wanted
from operations.verbs.report import everywhere, verify_table

if host.name == next(iter(inventory)).name:
    try:
        knobs, recipe = wanted({key: value for key, value in host.data.dict().items() if key != "deep"})
    except Refusal as refusal:
        raise DeployError(str(refusal)) from None
    hosts = list(inventory)[:1] if knobs.topology == "solo" else list(inventory)
    where = {"store": knobs.model_store, "folder": recipe.model.folder, "revision": recipe.model.revision or "none"}
    verify_table(everywhere(hosts, "model_verify", **where, deep=bool(host.data.get("deep"))))
