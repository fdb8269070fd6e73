"""What a node runs, as a CycloneDX 1.6 document: images with the packages read inside them, and the model's files.

Pure: what the node told goes in, a document comes out; the same again gives the same serial number.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from operations.plan.config.knobs import Knobs
from operations.plan.recipes.images import Image
from operations.plan.recipes.recipe import Recipe
from operations.wire import Json
from operations.wire.model import ModelFile, Package, Packages

_NAMESPACE = uuid.UUID("6f4b2a52-1a1c-5c1e-9d6f-2f7b6f2f0a10")


def document(
    node: str,
    recipe: Recipe,
    knobs: Knobs,
    images: Mapping[str, Image],
    told: Mapping[str, Packages],
    files: Mapping[str, ModelFile],
    when: str,
) -> Json:
    """The document. `images` by role, `told` by role as operations/node/image/packages.py says it, `files` of the model
    (name -> size, blob), `when` in ISO 8601 with a time zone.
    """
    parts = [_image(role, image, told[role]) for role, image in images.items() if "python" in told.get(role, {})]
    parts.append(_model(recipe, files))
    root = f"node/{node}"
    body = {
        "metadata": {
            "timestamp": when,
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": recipe.name,
                "description": f"{recipe.engine} in topology {knobs.topology} on {node}",
            },
        },
        "components": parts,
        "dependencies": [{"ref": root, "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    content = json.dumps({**body, "metadata": body["metadata"]["component"]}, sort_keys=True)  # type: ignore[index]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, content)}",
        "version": 1,
        **body,
    }


def _image(role: str, image: Image, told: Packages) -> Json:
    reference = image.reference if image.kind != "build" else image.place
    return {
        "type": "container",
        "bom-ref": f"image/{role}",
        "name": reference,
        "version": str(told.get("id", "")),
        "properties": [
            {"name": "tandem:role", "value": role},
            {"name": "tandem:local", "value": image.local},
            {"name": "tandem:content", "value": str(told.get("content", ""))},
        ],
        "components": list(_packages(role, told)),
    }


def _packages(role: str, told: Packages) -> Iterator[Json]:
    system = told.get("system", {})
    if name := system.get("ID"):
        version = system.get("VERSION_ID", "")
        yield {"type": "operating-system", "bom-ref": f"{role}/os", "name": name, "version": version}
    distribution = system.get("ID", "debian")
    for each in told.get("deb", ()):
        purl = f"pkg:deb/{distribution}/{_quoted(each['name'])}@{_quoted(each['version'])}"
        architecture = each.get("architecture", "")
        yield _library(role, each, f"{purl}?arch={architecture}" if architecture else purl, architecture)
    for each in told.get("apk", ()):
        yield _library(role, each, f"pkg:apk/alpine/{_quoted(each['name'])}@{_quoted(each['version'])}")
    for each in told.get("python", ()):
        name = each["name"].lower().replace("_", "-")
        yield _library(role, each, f"pkg:pypi/{_quoted(name)}@{_quoted(each['version'])}", each.get("place", ""))


def _library(role: str, each: Package, purl: str, where: str = "") -> Json:
    # The same distribution may lie in two places, a library of two architectures beside itself.
    reference = f"{role}/{purl}" + (f"#{where}" if where else "")
    return {"type": "library", "bom-ref": reference, "name": each["name"], "version": each["version"], "purl": purl}


def _model(recipe: Recipe, files: Mapping[str, ModelFile]) -> Json:
    revision = recipe.model.revision or ""
    return {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": recipe.model.repo,
        "version": revision,
        "purl": f"pkg:huggingface/{quote(recipe.model.repo)}@{revision}",
        "components": [_file(name, each) for name, each in sorted(files.items())],
    }


def _file(name: str, each: ModelFile) -> Json:
    """A file; its blob's name is its sha256, or where that is git's, the hash of a git blob, which is not its sha1."""
    blob = str(each["blob"])
    found: Json = {"type": "file", "bom-ref": f"model/{name}", "name": name}
    found["properties"] = [{"name": "tandem:bytes", "value": str(each["size"])}]
    if len(blob) == 64:
        found["hashes"] = [{"alg": "SHA-256", "content": blob}]
    else:
        found["properties"].append({"name": "tandem:git-blob", "value": blob})
    return found


def _quoted(text: str) -> str:
    return quote(text, safe="")
