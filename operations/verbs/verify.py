"""`tandem verify`: are the models whole on every node that answers, and the same? --deep hashes every byte again."""

from functools import partial

from pyinfra import host, inventory
from pyinfra.api.exceptions import DeployError
from pyinfra.api.host import Host

from operations.node.model import verify
from operations.plan.declared import chosen
from operations.plan.wanted import wanted
from operations.runner.remote import ask_or_none
from operations.runner.run import this_run
from operations.verbs.report import absent_lines, everywhere, refusals_told, say, say_json, verify_table, wants_json
from operations.wire.model import Place, Verified


def _verified(store: str, models: list[Place], deep: bool, on: Host) -> Verified | None:
    return ask_or_none(on, verify.main, store, models, deep)


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
        places = [each.place for each in model.recipe.models]
        deep = bool(host.data.get("_deep"))
        answers = everywhere(run, hosts, partial(_verified, declared.knobs.model_store, places, deep))
        told[model.name] = answers
        problems += verify_table([each.repo for each in model.recipe.models], answers, shown=not wants_json())
    if wants_json():
        say_json(models=told, problems=problems, absent=away)
    if not told:
        raise DeployError("no node that serves can be asked: " + "; ".join(away))
    if problems:
        raise DeployError("; ".join(problems) + "; `tandem apply` fetches what is wrong, and nothing else")
