"""A deploy and the verbs on nodes with known holes: what is refused, what the owner's word does, what is written."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from operations.node.image import container, packages
from operations.paths import PROXY
from operations.plan import advisories
from operations.plan.advisories import parts
from operations.plan.history import record
from operations.plan.recipes.formats import FOLDER
from tests.deploy.fake import NAMES, Outcome, as_planned, deploy, fresh, look, planned
from tests.plan.samples import engine_of

PICTURES = "CVE-2026-22778"
MARLIN = FOLDER / "nemotron-3-super-nvfp4-marlin.yaml"
TOLD: dict[str, Any] = {
    "system": {"ID": "ubuntu", "VERSION_ID": "24.04"},
    "deb": [{"name": "bash", "version": "5.2", "architecture": "arm64"}],
    "apk": [],
    "python": [
        {"name": "vllm", "version": "0.33.0", "place": "/x"},
        {"name": "torch", "version": "2.5.1", "place": "/x"},
    ],
    "id": "sha256:1",
    "content": "c1",
}
SOFTWARE = {"docker": "28.0.4", "runc": "1.3.6", "nvidia-container-toolkit": "1.19.1"}


@pytest.fixture
def seeing(tmp_path: Path) -> str:
    """A recipe on vLLM 0.14.0 whose model takes pictures."""
    file = tmp_path / "seeing.yaml"
    text = MARLIN.read_text().replace("name: nemotron-3-super-nvfp4-marlin", "name: seeing")
    text = re.sub(r"repo: \S+", "repo: tandem/pictures-vl", text)
    file.write_text(text.replace("engine_version: 0.17.1", "engine_version: 0.14.0"))
    return str(file)


def run(tmp_path: Path, recipe: str, *data: str, **surveys: Any) -> Outcome:
    plan = planned(recipe=recipe)
    flags = [word for each in (f"recipe={recipe}", *data) for word in ("--data", each)]
    return deploy(tmp_path, [look(plan, name) for name in NAMES], "-y", *flags, **surveys)


def test_a_critical_hole_is_refused_in_one_line_before_the_first_change(tmp_path: Path, seeing: str) -> None:
    outcome = run(tmp_path, seeing)
    assert outcome.code != 0 and outcome.commands == []
    assert "nothing was changed; this has to be put right first" in outcome.text
    [line] = [line for line in outcome.text.splitlines() if f"has {PICTURES}" in line]
    assert "vLLM 0.14.0" in line and "a client with a key" in line
    assert f'or accept_risk = ["{PICTURES}"] in group_data/all.py' in outcome.text


def test_with_the_owners_word_it_is_deployed(tmp_path: Path, seeing: str) -> None:
    outcome = run(tmp_path, seeing, f"accept_risk={PICTURES}")
    assert outcome.code == 0, outcome.text
    assert PICTURES not in "".join(line for line in outcome.text.splitlines() if "[33m" in line or "has CVE" in line)


def test_a_word_that_is_needed_no_more_is_told(tmp_path: Path) -> None:
    outcome = run(tmp_path, str(MARLIN), "accept_risk=CVE-2099-00001")
    assert outcome.code == 0, outcome.text
    assert "accept_risk: nothing here has CVE-2099-00001 any more; take it out of group_data/all.py" in outcome.text


def test_a_node_with_an_old_toolkit_is_refused_by_its_name(tmp_path: Path) -> None:
    outcome = run(tmp_path, str(MARLIN), software=SOFTWARE | {"nvidia-container-toolkit": "1.17.6"})
    assert outcome.code != 0 and outcome.commands == []
    assert "NVIDIA Container Toolkit 1.17.6 has CVE-2025-23266 (9.0)" in outcome.text
    assert "full-upgrade on @fake/spark-2" in outcome.text


def test_what_the_image_has_told_before_is_judged_and_not_what_the_recipe_says(tmp_path: Path, seeing: str) -> None:
    image = engine_of(planned(recipe=seeing).head)
    outcome = run(tmp_path, seeing, inside={image.image.local: {"vllm": "0.33.0"}})
    assert outcome.code == 0, outcome.text


def test_the_way_back_is_not_shut_by_a_hole(tmp_path: Path, seeing: str) -> None:
    now, past = planned(), planned(recipe=seeing)
    engine, proxy = engine_of(past.head), past.head.container(PROXY)
    assert proxy is not None
    served = record(past, {engine.image.local: "c1", proxy.image.local: "c1"}) | {"when": "2026-11-01"}
    state = {"image": {"content": "c1"}, "replaced": False}
    told = {"plans": [served], "images": {engine.image.local: state, proxy.image.local: state}}
    states = [fresh(now, name) for name in NAMES]
    outcome = deploy(tmp_path, states, "--dry", "-y", "--data", "_rollback=1", programs={"unit.served": told})
    assert f"has {PICTURES}" in outcome.text
    assert "this has to be put right first" not in outcome.text, outcome.text


def test_a_word_that_one_of_several_models_needs_stays() -> None:
    verdicts = [
        advisories.Verdict((), (), ("CVE-2099-00001", "CVE-2099-00002")),
        advisories.Verdict((), (), ("CVE-2099-00002",)),
    ]
    assert advisories.stale_in_all(verdicts) == advisories.stale_in_all(verdicts[::-1]) == ("CVE-2099-00002",)


def audit(tmp_path: Path, *data: str, **programs: Any) -> Outcome:
    plan = planned(recipe=str(MARLIN))
    # Images are asked for by their local names.
    local = {"engine": engine_of(plan.head).image.local, "proxy": plan.head.container(PROXY).image.local}
    told = {local[role]: said for role, said in programs.pop("packages", {}).items()}
    answers = {"machine.runtimes": SOFTWARE, "image.packages": told} | programs
    states = [look(plan, name) for name in NAMES]
    data = ("--data", f"recipe={MARLIN}", "--data", "executor=ray", *data)
    return deploy(tmp_path, states, "-y", *data, file="operations/verbs/audit_security.py", programs=answers)


def test_the_audit_judges_by_the_recipe_and_the_locks_where_no_image_is_there(tmp_path: Path) -> None:
    outcome = audit(tmp_path)
    assert outcome.code == 0, outcome.text
    [row] = [line for line in outcome.json.splitlines() if "CVE-2026-55574" in line]
    for word in ("vLLM", "0.17.1", "engine", "7.5", "0.24.0", "yes: a client with a key", "a recipe with vLLM 0.24.0"):
        assert word in row
    assert "no: the recipe sets no VLLM_API_KEY" in outcome.json
    assert "Ray (engine): nobody says its version" in outcome.json
    assert "by the list of 2026-" in outcome.json and "0 critical" in outcome.json


def test_the_audit_judges_what_is_in_the_image_and_fails_where_that_is_critical(tmp_path: Path) -> None:
    outcome = audit(tmp_path, packages={"engine": TOLD, "proxy": {"error": "it can't be asked"}})
    assert outcome.code != 0
    assert "critical holes can be reached and nobody has accepted them: CVE-2025-32434" in outcome.text
    assert "CVE-2026-55574" not in outcome.json and "it can't be asked" in outcome.json
    accepted = audit(tmp_path, "--data", "accept_risk=CVE-2025-32434", packages={"engine": TOLD, "proxy": {}})
    assert accepted.code == 0 and "accepted: a malicious model" in accepted.json


def sbom(tmp_path: Path, told: dict[str, Any]) -> Outcome:
    states = as_planned()
    model = {"present": True, "path": "/hub/m", "files": {"a.safetensors": {"size": 1, "blob": "b" * 64}}}
    programs = {"image.packages": told, "model.verify": {"models": [model]}}
    to = ("--data", f"_to={tmp_path / 'out'}")
    return deploy(tmp_path, states, "-y", *to, file="operations/verbs/sbom.py", programs=programs)


def test_the_document_of_what_the_head_runs_is_written_here(tmp_path: Path) -> None:
    outcome = sbom(tmp_path, {"engine": TOLD, "proxy": TOLD})
    assert outcome.code == 0, outcome.text
    [file] = (tmp_path / "out").iterdir()
    bom = json.loads(file.read_text())
    assert file.name == "spark-1.cdx.json" and bom["specVersion"] == "1.6"
    assert [part["bom-ref"] for part in bom["components"]] == ["image/engine", "image/proxy", "model"]
    assert "engine: 1 packages of the system, 2 of Python" in outcome.json


def test_no_document_is_written_of_an_image_that_is_not_there(tmp_path: Path) -> None:
    outcome = sbom(tmp_path, {"engine": TOLD, "proxy": {}})
    assert outcome.code != 0 and "is not on @fake/spark-1; `tandem apply` fetches what is missing" in outcome.text
    assert not (tmp_path / "out").exists()


def test_an_image_is_asked_once_and_kept_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class RunDouble:
        returncode = 0
        stdout = json.dumps({"python": [{"name": "torch", "version": "2.13.0", "place": "/x"}], "deb": [], "apk": []})

    def run_double(local: str, *_: Any) -> RunDouble:
        asked.append(local)
        return RunDouble()

    monkeypatch.setattr(packages, "KEPT", tmp_path)
    monkeypatch.setattr(container, "run", run_double)
    monkeypatch.setattr(packages, "image_states", lambda _: {"engine:1": {"id": "sha256:ab", "content": "c"}})
    images = {"engine": "engine:1", "proxy": "proxy:1"}
    first = packages.main(images, "script")
    assert packages.main(images, "script") == first and asked == ["engine:1"]
    assert first["proxy"] == {} and first["engine"]["content"] == "c"
    assert packages.versions("sha256:ab") == {"torch": "2.13.0"} and packages.versions("sha256:cd") == {}


def test_an_image_without_python_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = 'docker: Error response from daemon: exec: "python3": executable file not found in $PATH'
    ended = subprocess.CompletedProcess([], 127, "", said)
    monkeypatch.setattr(packages, "KEPT", tmp_path)
    monkeypatch.setattr(container, "run", lambda *_: ended)
    monkeypatch.setattr(packages, "image_states", lambda _: {"engine:1": {"id": "sha256:ab", "content": "c"}})
    told = packages.main({"engine": "engine:1"}, "script")
    assert told == {"engine": {"error": "engine:1 has no Python, by which its packages are listed"}}
    assert list(tmp_path.iterdir()) == []


def test_the_floors_of_what_we_choose_are_above_the_known_holes() -> None:
    assert dict(parts.locked("tests/lab/images/engine/requirements.lock"))["ray"] >= "2.56"
    floor = (FOLDER.parents[1] / "files/images/proxy/requirements.in").read_text()
    assert "litellm[proxy]>=1.103.1" in floor
