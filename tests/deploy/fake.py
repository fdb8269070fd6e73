"""Whole deploys on pyinfra's @fake connector: real deploy.py, real pyinfra, nodes that answer from a script."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operations.paths import ARP, CLIENT_KEYS, FIREWALL, LITELLM, PROXY_CONFIG, PROXY_KEY, RAY_TOKEN, SLICE
from operations.plan.cluster.nodes import Node
from operations.plan.history import record
from operations.plan.plan import Plan, make_plan
from operations.plan.recipes.images import needed
from operations.plan.services import registry
from operations.plan.services.litellm_service import config_of
from operations.plan.wanted import wanted as read
from operations.runner.looking import images_at
from tests.deploy.warm import pyinfra
from tests.plan.samples import knob_data, survey

NAMES = ("@fake/spark-1", "@fake/spark-2")
FOUR = (*NAMES, "@fake/spark-3", "@fake/spark-4")
#: Commands that start and stop the engine of a node.
START, STOP = "systemctl start --no-block tandem-engine.service", "systemctl stop tandem-engine.service"
#: A cluster that Ray joins, in an image that has it.
RAY = {"topology": "cluster", "executor": "ray", "recipe": "nemotron-3-super-nvfp4-marlin"}
_INVENTORY = """
import json, re
from pathlib import Path
from operations.runner import carrying_out
# No proxy is there that would have to take an engine back.
carrying_out.TAKEN_BACK_S = 0
_answers = json.loads(Path({answers!r}).read_text())
nodes = [
    (_name, {{"fake_delay": 0, "fake_delay_jitter": 0, "ssh_user": "spark",
              "fake_responses": {{re.compile("' " + program + " "): answer for program, answer in _by.items()}}}})
    if _name.startswith("@fake/") else (_name, _by)
    for _name, _by in _answers.items()
]
"""
#: What a node without one says of its proxy's certificate.
NO_CERTIFICATE = {"hash": "", "names": [], "ends": 0.0, "authority": "", "own": "", "owners": [], "newer": False}
#: Data of a node in place of its state: reached over ssh, where nobody listens.
OFF = {"ssh_hostname": "127.0.0.1", "ssh_port": 1, "ssh_user": "spark"}


@dataclass(frozen=True)
class Outcome:
    """What a run of pyinfra did: exit code, its words, and the commands of operations by node, in order."""

    code: int
    text: str
    json: str
    commands: list[tuple[str, str]]

    @property
    def refused(self) -> bool:
        """It ended because something was wrong: 1, or 2 where a word of the owner's was not understood."""
        return self.code in (1, 2)

    def position(self, node: int, command: str) -> int:
        """Where a command of a node (1, 2) stands among all; fails when it was not run."""
        return next(i for i, (at, ran) in enumerate(self.commands) if at == f"spark-{node}" and command in ran)


def planned(slots: Any = None, names: Any = NAMES, **changes: Any) -> Plan:
    """The plan that a deploy of fake nodes makes; `slots`: of models that have been there, by name."""
    declared = read(knob_data(**changes))
    rails = ("enp1s0f0np0", "enP2p1s0f0np0")
    more: dict[str, Any] = {"engine_group": SLICE, "memory_mib": survey()["memory"]["total_mib"]}
    nodes = [
        Node(name, i, name, "/home/spark", "aarch64", rails, (), declared.knobs.rail_subnets, **more)
        for i, name in enumerate(names)
    ]
    return make_plan(declared, nodes, slots=slots)


def declares(models: Mapping[str, Any]) -> str:
    """Code at an inventory's end (`deploy`): these models are in the nodes' data, in the place of group_data's."""
    return f"for _, _data in nodes:\n    _data['models'] = {dict(models)!r}\n"


def contents_of(plan: Plan) -> dict[str, str]:
    """What lies under each local name on a node that is as the plan wants it."""
    return dict.fromkeys(needed(plan.declared.pairs), "c1")


def look(plan: Plan, name: str) -> dict[str, Any]:
    """A node exactly as the plan wants it."""
    mine = plan.of(name)
    services = mine.services
    files = [*mine.fabric, *(file for service in services.values() for file in service.files)]
    units: dict[str, dict[str, str]] = {unit: {} for unit in registry.to_tell()}
    for unit, service in services.items():
        units[unit] = {"ActiveState": "active", "UnitFileState": "enabled", "spec": service.spec, "image": "sha256:1"}
        units[unit]["topology"] = next((m.topology for m in plan.on(name) if m.unit == unit), plan.knobs.topology)
    for model in plan.on(name):
        units[model.unit]["group"] = model.group
        units[model.unit]["url"] = model.endpoints.get(name, "")
    image = {"image": {"id": "sha256:1", "content": "c1", "architecture": "arm64"}, "replaced": False}
    return {
        "services": {"units": units, "strays": []},
        "images": {each.local: image for each in images_at(plan, name)},
        "files": {file.path: {"sha256": file.sha256, "mode": file.mode} for file in files},
        "links": {
            rail: {
                "carrier": True,
                "up": True,
                "mtu": plan.knobs.fabric_mtu,
                "addresses": [f"{address}/24"],
                "driver": "",
                "rdma": None,
                "mac": f"30:c5:99:00:0{mine.node.index}:0{mine.node.rails.index(rail)}",
                "arp": dict(ARP),
            }
            for rail, address in zip(mine.node.rails, mine.node.rail_addresses, strict=True)
        },
        "models": {
            each.key: {
                "present": True,
                "problems": [],
                "files": {"a": {"size": 1, "blob": "b"}},
                "proven": True,
                "touched": [],
            }
            for model in plan.models
            for each in model.recipe.models
        },
        "kernels": {"gpu": "", "cpu": "", "kept": {}},
        "slots": {each.name: each.slot for each in plan.on(name) if each.name},
        "secrets": {RAY_TOKEN: "t", PROXY_KEY: "k", CLIENT_KEYS: ""},
        "modes": {"wrong": [], "refused": []},
        "served": record(plan, contents_of(plan))["id"],
        "starts": {},
        "firewall": {"problem": "" if FIREWALL in mine.services else "no firewall of Tandem's is here"},
        "proxy": {
            "loaded": next((file.sha256 for file in files if file.path == PROXY_CONFIG), ""),
            "engines": {unit: next((f.sha256 for f in files if f.path == config_of(unit)), "") for unit in LITELLM},
            "older": [],
            "drained": [],
        },
        "certificate": dict(NO_CERTIFICATE),
        "alone": {},
        "office": {"own": [], "known": {}},
        "missing": [],
        "refused": False,
    }


def as_planned(**changes: Any) -> list[dict[str, Any]]:
    """Looks at all nodes of `planned`, which are exactly so."""
    plan = planned(**changes)
    return [look(plan, each.node.name) for each in plan.nodes]


def flags(**changes: Any) -> list[str]:
    """Knobs on the command line."""
    return [word for name, value in changes.items() for word in ("--data", f"{name}={value}")]


def fresh(plan: Plan, name: str) -> dict[str, Any]:
    """A node with images and model, and nothing else of Tandem's."""
    state = look(plan, name)
    state["services"]["units"] = {unit: {} for unit in registry.to_tell()}
    state["files"] = {}
    state["secrets"] = {RAY_TOKEN: "", PROXY_KEY: "k", CLIENT_KEYS: ""}
    state["firewall"] = {"problem": "no firewall of Tandem's is here"}
    state["proxy"] = {"loaded": "", "engines": {}, "older": [], "drained": []}
    return state


def quiet(said: Any, state: dict[str, Any], expected: dict[str, str]) -> dict[str, str]:
    """What a node's programs answer where nothing is wrong; `said`: its survey, `expected`: words of its engine."""
    answers = {
        "look.survey": said,
        "look.look": state,
        "network.rails:apply": {},
        "network.rails:keep": {"kept": True},
        "network.proof:prove": {"problems": []},
        "engine.probe": {"ok": True, "seconds": 0.1},
        "unit.brief": {"state": {"ActiveState": "active", "NRestarts": "0"}, "log": [], "told": ""},
        "look.files": {},
        "image.vocabulary": {},
        "image.gpu_trial": {},
        "unit.journal": {"seen": expected, "invocation": "", "cursor": ""},
        "engine.answer_quality": {"problem": "", "judged": True},
        "unit.served": {"plans": [], "images": {}},
    }
    return {program: json.dumps(answer) for program, answer in answers.items()}


def inventory_of(tmp_path: Path, states: list[dict[str, Any]], **surveys: Any) -> Path:
    """The file of an inventory with a node for each state, or an ssh node of this data. `surveys` changes what both
    surveys say, `programs` (program -> answer) what other node programs do, `by_node` the same by node, `failing` (node
    -> programs) which of them can't be run, `inventory` is code at the inventory's end.
    """
    programs, failing = surveys.pop("programs", {}), surveys.pop("failing", {})
    code, by_node = surveys.pop("inventory", ""), surveys.pop("by_node", {})
    expected = dict.fromkeys(read(knob_data()).first.recipe.proof.expect, "as expected")
    answers: dict[str, dict[str, Any]] = {}
    for name, state in zip(FOUR[: len(states)], states, strict=True):
        if "ssh_hostname" in state:
            # One address is one node.
            answers[name.removeprefix("@fake/")] = {**state, "ssh_port": state["ssh_port"] + len(answers)}
            continue
        said = surveys["only"] if "only" in surveys else survey(state=state, **surveys)
        answers[name] = {
            **quiet(said, state, expected),
            "door.drained": json.dumps({"left": 0, "taken": 1}),
            "secret.modes": json.dumps({"wrong": [], "refused": []}),
            **{program: json.dumps(answer) for program, answer in (programs | by_node.get(name, {})).items()},
            **{program: {"success": False, "stderr": "sudo: no"} for program in failing.get(name, ())},
        }
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    inventory = tmp_path / "nodes.py"
    inventory.write_text(_INVENTORY.format(answers=str(tmp_path / "answers.json")) + code)
    return inventory


def deploy(tmp_path: Path, states: list[dict[str, Any]], *arguments: str, **surveys: Any) -> Outcome:
    """Run the deploy (or the `file`) on the nodes of `inventory_of`."""
    file = surveys.pop("file", "deploy.py")
    done = pyinfra("-vv", str(inventory_of(tmp_path, states, **surveys)), file, *arguments)
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    return Outcome(done.returncode, text, done.stdout, _commands(text))


def _commands(text: str) -> list[tuple[str, str]]:
    """Commands of operations: what -vv prints, less the questions that facts ask."""
    found = re.findall(r"^\[@fake/(spark-\d)\] >>> (.*)$", text, re.MULTILINE)
    return [(node, command) for node, command in found if "memfd_create" not in command]
