"""`tandem audit-security`: what runs or would run, against known holes; 1 where a critical one can be reached."""

from dataclasses import replace

from pyinfra import host, inventory
from pyinfra.api.exceptions import DeployError

from operations.node.image import packages as node_packages
from operations.node.machine import runtimes
from operations.plan import advisories
from operations.plan.config.files import as_is
from operations.plan.declared import chosen
from operations.plan.wanted import wanted
from operations.runner.remote import ask_or_none
from operations.runner.run import this_run
from operations.verbs.hole_table import failure, show
from operations.verbs.report import absent_lines, everywhere, refusals_told, say
from operations.wire.model import Packages

run = this_run()
if run.speaks(host):
    with refusals_told():
        declared = wanted(dict(host.data.dict()))
        models = chosen(declared, host.data.get("_model"))
        images = {local: local for each in models for local in advisories.roles(*each.pair).values()}
    head, answering = next(iter(inventory)), run.answering
    nodes: dict[str, dict[str, str]] = everywhere(run, answering, lambda each: ask_or_none(each, runtimes.main))
    told: dict[str, Packages] = {}
    if head.name in nodes:
        packages: dict[str, dict[str, Packages]] = everywhere(
            run, [head], lambda each: ask_or_none(each, node_packages.main, images, as_is("sbom/packages.py"))
        )
        told = packages[head.name]
    errors = [each["error"] for each in told.values() if "error" in each]
    inside = {
        local: {each["name"]: each["version"] for each in said["python"]}
        for local, said in told.items()
        if "python" in said
    }
    verdicts = list[advisories.Verdict]()
    for model in models:
        by_role = {role: inside[local] for role, local in advisories.roles(*model.pair).items() if local in inside}
        verdicts.append(advisories.judge(*model.pair, inside=advisories.by_role(by_role), nodes=nodes))
    # With --model the others are not judged: which of the owner's words they need is not known.
    stale = advisories.stale_in_all(verdicts) if models == declared.models else ()
    for model, verdict in zip(models, verdicts, strict=True):
        if model.name:
            say([f"{model.name}:"])
        show(replace(verdict, stale=stale))
    critical = [hole for verdict in verdicts for hole in verdict.critical]
    say([*errors, *absent_lines(run)])
    if critical:
        raise DeployError(failure(critical))
