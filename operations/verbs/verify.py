"""`make verify`: are the models whole on every node that answers, and the same? DEEP=1 hashes every byte again."""

from pyinfra import host, inventory
from pyinfra.api.exceptions import DeployError

from operations.plan.declared import chosen
from operations.plan.wanted import wanted
from operations.run import this_run
from operations.shapes.model import Verified
from operations.verbs.report import absent_lines, everywhere, refusals_told, say, say_json, verify_table, wants_json

run = this_run()
if run.speaks(host):
    with refusals_told():
        declared = wanted(dict(host.data.dict()))
        models = chosen(declared, host.data.get("_model"))
    names = [each.name for each in inventory]
    problems, told = list[str](), dict[str, dict[str, Verified]]()
    away = absent_lines(run)
    if not wants_json():
        say(away)
    for model in models:
        hosts = [each for each in run.answering if each.name in model.lies_on(names)]
        if not hosts:
            continue
        answers: dict[str, Verified] = everywhere(
            run,
            hosts,
            "model.verify",
            store=declared.knobs.model_store,
            models=[each.place for each in model.recipe.models],
            deep=bool(host.data.get("_deep")),
        )
        told[model.name] = answers
        problems += verify_table([each.repo for each in model.recipe.models], answers, shown=not wants_json())
    if wants_json():
        say_json(models=told, problems=problems, absent=away)
    if not told:
        raise DeployError("no node that serves can be asked: " + "; ".join(away))
    if problems:
        raise DeployError("; ".join(problems) + "; `make apply` fetches what is wrong, and nothing else")
