"""`tandem doctor`: what no log says, on every node and between them. Changes nothing; 1 when something is bad."""

from dataclasses import asdict

from pyinfra import host, inventory
from pyinfra.api.exceptions import DeployError

from operations.doctor import table
from operations.doctor.asking import Examination
from operations.plan.cluster import nccl
from operations.plan.doctor import diagnose, figures
from operations.plan.doctor.symptom import BAD, Seen
from operations.plan.plan import as_a_whole, ports_by_node
from operations.plan.recipes.images import engine_image
from operations.plan.wanted import wanted
from operations.runner.run import this_run
from operations.verbs.report import refusals_told, say_json, wants_json

run = this_run()
if run.speaks(host):
    with refusals_told():
        declared = wanted(dict(host.data.dict()))
        # Each of them has the programs that a GPU is tried with.
        image = engine_image(*declared.first.pair).local
    hosts = list(inventory)
    names = [each.name for each in hosts]
    knobs, ports = as_a_whole(declared, names), ports_by_node(declared, names)
    network = str(host.data.get("_net", "1")) != "0"
    dead = {absence.name: absence for absence in run.absent}
    seen = Seen(
        dead=dead,
        needs_rails=knobs.topology != "solo" and len(hosts) > 1,
        wants_rdma=any(nccl.may_use_rdma(each.recipe, each.knobs.of_an_engine) for each in declared.models),
        wanted_mtu=knobs.fabric_mtu,
    )
    if not wants_json():
        table.announce(len(hosts), network=network)
    examination = Examination(run.answering, seen)
    examination.look(knobs.model_store, image, ports, knobs.rail_subnets)
    examination.load(image)
    if seen.needs_rails:
        examination.cables()
        examination.frames()
        if network:
            examination.streams()
        else:
            seen.skipped = ("net",)
    symptoms = diagnose(seen, ports)
    if wants_json():
        say_json(symptoms=[asdict(symptom) for symptom in symptoms], figures=figures(seen))
    else:
        table.show(symptoms, figures(seen), len(hosts))
    if bad := sum(symptom.severity == BAD for symptom in symptoms):
        raise DeployError(f"{bad} bad thing(s) were found")
