"""`tandem models pull WHAT`: the steps of a deploy that fetch a model and copy it; what serves goes on."""

import json

from pyinfra import logger

from operations.plan.declared import Declared
from operations.plan.pulling import pulled
from operations.runner.run import Run, this_run
from operations.steps import image, lock, model, preflight
from operations.verbs.key_words import given


def _declared(of: Run) -> Declared:
    return _pulled(of)[0]


def _pulled(of: Run) -> tuple[Declared, str]:
    data = {name: value for name, value in of.state.inventory.override_data.items() if not name.startswith("_")}
    return pulled(json.loads(given("PULLED")), dict(of.head.data.dict()), data)


run = this_run()
preflight.settle(run, advice=lambda *_: "", declared=_declared)
only = _pulled(run)[1]
lock.hold(run, name="Lock | one deploy at a time")
# Its container has the Hub's client, whatever the engine's image is.
image.obtain(run, "proxy", name="Image | the proxy's, on the head")
model.obtain(run, only, name="Model | on the head")
if missing := model.without_rails(run):
    if run.speaks(run.head):
        logger.warning(f"no rail of {', '.join(missing)} has its address yet: `tandem apply` copies the model there")
else:
    model.copy(run, only, name="Model | on the other nodes")
