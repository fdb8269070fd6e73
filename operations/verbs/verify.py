"""`make verify`: are the models whole on every node that answers, and the same? DEEP=1 hashes every byte again."""

from typing import Any

from pyinfra import host, inventory
from pyinfra.api.exceptions import DeployError

from operations import reach
from operations.plan.wanted import wanted
from operations.verbs.report import absent_lines, everywhere, refusals_told, say, verify_table

if reach.speaks(host, inventory):
    with refusals_told():
        knobs, recipe = wanted(dict(host.data.dict()))
    serving = list(inventory)[:1] if knobs.topology == "solo" else list(inventory)
    hosts = [each for each in reach.answering(inventory) if each in serving]
    if not hosts:
        raise DeployError("no node that serves can be asked: " + "; ".join(absent_lines(topology=knobs.topology)))
    where: dict[str, Any] = {"store": knobs.model_store, "models": [model.place for model in recipe.models]}
    answers = everywhere(hosts, "model_verify", **where, deep=bool(host.data.get("_deep")))
    say(absent_lines(topology=knobs.topology))
    verify_table([model.repo for model in recipe.models], answers)
