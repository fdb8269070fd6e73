"""`make audit-security`: what runs or would run, against known holes; 1 where a critical one can be reached."""

from typing import Any

from pyinfra import host, inventory
from pyinfra.api.exceptions import DeployError

from operations import reach
from operations.plan import holes
from operations.plan.files import as_is
from operations.plan.wanted import wanted
from operations.verbs.hole_table import failure, show
from operations.verbs.report import absent_lines, everywhere, refusals_told, say

if reach.speaks(host, inventory):
    with refusals_told():
        knobs, recipe = wanted(dict(host.data.dict()))
        images = holes.roles(recipe, knobs)
    head, answering = next(iter(inventory)), reach.answering(inventory)
    nodes: dict[str, Any] = everywhere(answering, "runtimes")
    told: dict[str, Any] = {}
    if head.name in nodes:
        told = everywhere([head], "packages", images=images, script=as_is("sbom/packages.py"))[head.name]
    errors = [each["error"] for each in told.values() if "error" in each]
    inside = {
        role: {each["name"]: each["version"] for each in said["python"]}
        for role, said in told.items()
        if "python" in said
    }
    verdict = holes.judge(recipe, knobs, inside=holes.by_role(inside), nodes=nodes)
    show(verdict)
    say([*errors, *absent_lines(topology=knobs.topology)])
    if verdict.critical:
        raise DeployError(failure(verdict.critical))
