"""`tandem sbom`: what the head runs, as CycloneDX 1.6, into a folder here (--to sbom)."""

import datetime
import json
from pathlib import Path

from pyinfra import host
from pyinfra.api.exceptions import DeployError

from operations.node.image import packages as node_packages
from operations.node.model import verify
from operations.plan.advisories.sbom import document
from operations.plan.config.files import as_is
from operations.plan.declared import one_of
from operations.plan.recipes.images import engine_image, proxy_image
from operations.plan.wanted import wanted
from operations.runner.remote import ask_or_none
from operations.runner.run import this_run
from operations.verbs.report import everywhere, refusals_told, say, the_head
from operations.wire.model import Packages, Verified

run = this_run()
if run.speaks(host):
    with refusals_told():
        recipe, knobs = one_of(wanted(dict(host.data.dict())), host.data.get("_model")).pair
        images = {image.role: image for image in (engine_image(recipe, knobs), proxy_image(recipe, knobs))}
    hosts = the_head(run)
    name = hosts[0].name
    local = {role: image.local for role, image in images.items()}
    packages: dict[str, dict[str, Packages]] = everywhere(
        run, hosts, lambda host: ask_or_none(host, node_packages.main, local, as_is("sbom/packages.py"))
    )
    told = packages[name]
    asked = [recipe.model.place]
    verified: dict[str, Verified] = everywhere(
        run, hosts, lambda host: ask_or_none(host, verify.main, knobs.model_store, asked)
    )
    (model,) = verified[name]["models"]
    if errors := [each["error"] for each in told.values() if "error" in each]:
        raise DeployError("; ".join(errors))
    missing = [f"{images[role].local} is not on {name}" for role, each in told.items() if not each.get("python")]
    if not model["present"]:
        missing.append(f"{model['path']} is not there")
    if missing:
        raise DeployError("; ".join(missing) + "; `tandem apply` fetches what is missing")
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    bom = document(name, recipe, knobs, images, told, model["files"], now)
    folder = Path(str(host.data.get("_to") or "sbom"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name.rpartition('/')[2]}.cdx.json"
    aside = file.with_suffix(".new")
    aside.write_text(json.dumps(bom, indent=1) + "\n")
    aside.replace(file)
    counts = [
        f"{role}: {len(each['deb']) + len(each['apk'])} packages of the system, {len(each['python'])} of Python"
        for role, each in told.items()
    ]
    say([f"{file}: {'; '.join(counts)}; {len(model['files'])} files of {recipe.model.repo}"])
