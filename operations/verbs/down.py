"""`tandem down`: stop and remove what Tandem started. Images, models, secrets and the fabric stay. With --model the
engines of one model alone: the next deploy brings them back, unless it is taken out of `models`.

Ends with 1 when a node does not answer: that one keeps what it has.
"""

from pyinfra import host, inventory, logger, state

from operations.paths import FIREWALL
from operations.plan.cluster.served_model import unit_of
from operations.plan.declared import chosen
from operations.plan.services import registry
from operations.plan.wanted import wanted
from operations.runner import units
from operations.runner.run import this_run
from operations.steps import firewall, lock
from operations.verbs.report import refusals_told

run = this_run()
if run.speaks(host):
    for absence in run.absent:
        logger.warning(
            f"{absence.name} {absence.why}: it keeps what it has, and starts that again when it boots. "
            "`tandem down` once more when it is back"
        )
    state.failed_hosts.update(each for each in inventory if each not in run.answering)
lock.alone(run, name="Lock | no deploy is at work")
if only := host.data.get("_model"):
    with refusals_told():
        (model,) = chosen(wanted(dict(host.data.dict())), only)
    units.take_down(run, names=[unit_of(model.name)], name=f"Down | the engines of {model.name}")
else:
    every = [unit for unit in registry.to_remove() if unit != FIREWALL]
    units.take_down(run, names=every, leftovers=True, name="Down | all units")
    # To the end: what is on its way out still listens.
    firewall.take_down(run, name="Down | the firewall")
