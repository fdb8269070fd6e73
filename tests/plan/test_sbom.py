"""The document of what a node runs, held against CycloneDX's own schema; and what it is read from, on a tree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from operations.plan.advisories.sbom import document
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.images import engine_image, proxy_image
from operations.wire.model import ModelFile
from tests.plan.samples import ROOT, knobs

SCRIPT = ROOT / "files/sbom/packages.py"
TOLD: Any = {
    "id": "sha256:1",
    "content": "c1",
    "system": {"ID": "ubuntu", "VERSION_ID": "24.04"},
    "deb": [
        {"name": "libc6", "version": "2.39-0ubuntu8.4", "architecture": "arm64"},
        {"name": "libc6", "version": "2.39-0ubuntu8.4", "architecture": "armhf"},
    ],
    "apk": [],
    "python": [
        {"name": "Typing_Extensions", "version": "4.16.0", "place": "/usr/lib/python3/dist-packages"},
        {"name": "typing_extensions", "version": "4.16.0", "place": "/opt/venv/lib/python3.12/site-packages"},
        {"name": "torch", "version": "2.13.0+cpu", "place": "/opt/venv/lib/python3.12/site-packages"},
    ],
}
FILES: dict[str, ModelFile] = {
    "config.json": {"size": 10, "blob": "a" * 40},
    "model.safetensors": {"size": 99, "blob": "b" * 64},
}


def bom(when: str = "2026-11-22T10:00:00+00:00", **told: Any) -> Any:
    wanted, recipe = knobs(), load_recipe("nemotron-3-super-nvfp4-marlin")
    images = {image.role: image for image in (engine_image(recipe, wanted), proxy_image(recipe, wanted))}
    return document("spark-1", recipe, wanted, images, told or {"engine": TOLD, "proxy": TOLD}, FILES, when)


def test_the_document_is_valid_cyclonedx() -> None:
    # Five seconds of imports: at the top, each of the tests' processes would wait for them.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bom())) is None


def test_every_part_has_a_name_of_its_own() -> None:
    def references(parts: list[Any]) -> list[str]:
        return [name for part in parts for name in (part["bom-ref"], *references(part.get("components", [])))]

    names = references(bom()["components"])
    assert len(names) == len(set(names)) and {"image/engine", "image/proxy", "model"} <= set(names)


def test_the_model_has_its_revision_and_the_hashes_that_the_store_knows() -> None:
    model = bom()["components"][-1]
    assert (model["type"], model["name"]) == (
        "machine-learning-model",
        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4",
    )
    assert model["version"] == "4f0cf9daaeb7a4d5e23f80a00e7ed15f0e03caf6"
    config, weights = model["components"]
    assert weights["hashes"] == [{"alg": "SHA-256", "content": "b" * 64}]
    # A git blob's hash is not the file's.
    assert "hashes" not in config and {"name": "tandem:git-blob", "value": "a" * 40} in config["properties"]


def test_packages_are_named_as_scanners_look_them_up() -> None:
    packages = {part.get("purl") for part in bom()["components"][0]["components"]}
    assert "pkg:deb/ubuntu/libc6@2.39-0ubuntu8.4?arch=arm64" in packages
    assert {"pkg:pypi/typing-extensions@4.16.0", "pkg:pypi/torch@2.13.0%2Bcpu"} <= packages


def test_the_same_again_has_the_same_serial_number() -> None:
    assert bom()["serialNumber"] == bom(when="2027-01-01T00:00:00+00:00")["serialNumber"]
    assert bom()["serialNumber"] != bom(engine=TOLD)["serialNumber"]


def test_an_image_that_is_not_there_is_left_out() -> None:
    assert [part["bom-ref"] for part in bom(engine=TOLD, proxy={})["components"]] == ["image/engine", "model"]


def tree(root: Path) -> Path:
    files = {
        "etc/os-release": 'NAME="Debian"\nID=debian\nVERSION_ID="12"\n',
        "var/lib/dpkg/status": (
            "Package: bash\nStatus: install ok installed\nArchitecture: arm64\nVersion: 5.2.15-2\n Description: x\n\n"
            "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n"
        ),
        "opt/venv/lib/python3.12/site-packages/a-1.0.dist-info/METADATA": (
            "Metadata-Version: 2.4\nName: a\nVersion: 1.0\n\nVersion: 9 in its description\n"
        ),
        "usr/lib/python3/dist-packages/b.egg-info": "Name: b\nVersion: 2.0\n",
        "usr/local/lib/python3.11/dist-packages/broken.dist-info/METADATA": "",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def listed(*arguments: str) -> Any:
    done = subprocess.run([sys.executable, "-", *arguments], input=SCRIPT.read_text(), capture_output=True, text=True)
    found: Any = json.loads(done.stdout)
    return found


def test_packages_are_read_from_the_records_of_the_system_and_of_python(tmp_path: Path) -> None:
    found = listed(str(tree(tmp_path)))
    assert found["system"]["ID"] == "debian"
    assert found["deb"] == [{"name": "bash", "version": "5.2.15-2", "architecture": "arm64"}]
    assert [(each["name"], each["version"]) for each in found["python"]] == [("a", "1.0"), ("b", "2.0")]
    assert found["python"][0]["place"] == "/opt/venv/lib/python3.12/site-packages"


def test_this_machines_own_packages_are_found_too() -> None:
    assert {"pydantic", "pyinfra"} <= {each["name"].lower() for each in listed()["python"]}
