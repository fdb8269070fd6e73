"""Each kind of finding has a code that stays, a topic in the manual, and a row that raises it (some in test_doctor)."""

from __future__ import annotations

import errno
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from paramiko import AuthenticationException, BadHostKeyException, RSAKey, SSHException

from manual import messages
from operations.plan.absence import Absence
from operations.plan.checks import check_survey
from operations.plan.cluster import ring
from operations.plan.config.kind import Kind
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.decide import preflight as decide
from operations.plan.doctor.findings import KINDS
from operations.plan.services import demand
from operations.plan.services.address import check_address
from operations.runner.reasons import explain
from operations.verbs import explain as verb
from tests.plan import test_address, test_models, test_owner_firewall, test_ring, test_tuning
from tests.plan.samples import ROOT, knobs, nodes, survey
from tests.plan.test_checks import links, listener, models
from tests.plan.test_demand import spark
from tests.plan.test_doctor import CASES

#: Published codes, one a line. Owners have noted them.
CODES = (Path(__file__).parent / "codes.txt").read_text().split()
#: Raised where nodes are asked: the tests that do.
ASKED = {
    "gpu-unseen-in-container": "tests/deploy/test_seeing.py",
    "reach-silent": "tests/deploy/test_doctor_asking.py",
    "reach-question-failed": "tests/deploy/test_doctor_asking.py",
}


def checked(found: Any, index: int = 0, node: dict[str, Any] | None = None, **changes: Any) -> Iterable[Finding]:
    """What the preflight says of a node; `node`: what is different in it."""
    wanted = knobs(**changes)
    of = replace(nodes(2, wanted)[index], **node or {})
    return check_survey(of, found, survey(), models(wanted, 2), wanted, 2)


def refused(cause: BaseException) -> Absence:
    host: Any = SimpleNamespace(name="spark-2", data={"ssh_user": "spark"}, connector=None)
    return explain(host, cause)


def on_macos(cause: BaseException) -> Absence:
    with patch.object(sys, "platform", "darwin"):
        return refused(cause)


def address(wanted: str, claimed: dict[str, Any] | None = None, office: str = "10.0.0.11/24") -> Iterable[Finding]:
    of = knobs(proxy_address=wanted)
    return check_address(of, [replace(nodes(1, of)[0], office=office)], test_address.surveys(**claimed or {}))


def remarked(**changes: Any) -> Iterable[str]:
    """What is remarked of a survey, and not refused."""
    wanted = knobs(topology="cluster")
    on = [replace(node, engine_group="") for node in nodes(2, wanted)]
    found = decide.surveys(on, {"spark-1": survey(**changes)}, models(wanted, 2), wanted)
    return [each.problem for each in found.remarks]


def running(**memory: int) -> Any:
    found = survey(memory=memory)
    found["state"]["services"]["units"]["tandem-engine"] = {"ActiveState": "active"}
    return found


def taken_together() -> Iterable[Any]:
    words = {"topology": "solo", "nodes": ["spark-1"]}
    both = {
        "coder": {"recipe": "qwen3.6-35b-a3b-nvfp4", **words, "memory_gib": 58},
        "small": {"recipe": "lab-tiny-llama", **words, "served_name": "small", "memory_gib": 40},
    }
    return demand.check(spark(90), test_models.planned(both, count=2).on("spark-1"))


def state(**changes: Any) -> Any:
    return survey(state=survey()["state"] | changes)


DOCKER = survey()["docker"]
LOST = {"firewall": {"problem": "", "inside": ["enp1s0f0np0", "enP2p1s0f0np0"]}, "links": {}}
RAIL = "enP2p1s0f0np0"
DOOR = {"device": "enP7s7", "own": "10.0.0.11/24", "peer": "10.0.0.1/24", "is_door": True, "by": "ufw", "remedy": "x"}
#: What raises a kind, by its code; the doctor's rows are in test_doctor.py.
RAISED: dict[str, Callable[[], Any]] = {
    "reach-connection-refused": lambda: refused(OSError(errno.ECONNREFUSED, "")),
    "reach-no-route": lambda: refused(OSError(errno.EHOSTUNREACH, "")),
    "reach-no-route-from-macos": lambda: on_macos(OSError(errno.EHOSTUNREACH, "")),
    "reach-no-network": lambda: refused(OSError(errno.ENETUNREACH, "")),
    "reach-timed-out": lambda: refused(TimeoutError(errno.ETIMEDOUT, "")),
    "reach-unknown-name": lambda: refused(socket.gaierror()),
    "reach-other-host-key": lambda: refused(BadHostKeyException("a", RSAKey.generate(1024), RSAKey.generate(1024))),
    "reach-login-refused": lambda: refused(AuthenticationException()),
    "reach-no-key": lambda: refused(SSHException("No authentication methods available")),
    "reach-unknown-host-key": lambda: refused(SSHException("No host key for [a]:22")),
    "reach-mute": lambda: refused(EOFError()),
    "reach-no-login": lambda: refused(ValueError("odd")),
    "node-no-python": lambda: checked({"python": False}),
    "node-sudo-password": lambda: checked({"sudo": False}),
    "node-other-machine": lambda: checked(survey(machine="x86_64")),
    "node-kernel": lambda: checked(survey(kernel="7.0.0-1019-nvidia")),
    "node-no-nftables": lambda: checked(survey(firewall={"nft": False, "groups": False})),
    "node-no-openssl": lambda: checked(survey(openssl=False), tls="self"),
    "node-no-cgroup-rules": lambda: remarked(),
    "docker-silent": lambda: checked(survey(docker=DOCKER | {"version": ""})),
    "docker-no-nvidia": lambda: checked(survey(docker=DOCKER | {"runtimes": []})),
    "docker-no-buildx": lambda: checked(
        survey(docker=DOCKER | {"buildx": False}),
        recipe="nemotron-3-super-nvfp4-cutlass",
        engine_image_from=models(knobs(recipe="nemotron-3-super-nvfp4-cutlass"), 2)[0].image.source,
    ),
    "docker-cdi-freezes": lambda: remarked(cdi=True, software={"nvidia-container-toolkit": "1.19.1"}),
    "gpu-no-driver": lambda: checked(survey(nvidia="")),
    "gpu-driver-fails": lambda: checked(survey(gpu=[["nvidia-smi ends with 18", "reboot it"]])),
    "gpu-taken": lambda: checked(survey(strangers=[["another program computes on the GPU: comfyui", "end it"]])),
    "gpu-no-clock-to-cap": lambda: checked(test_tuning.clocks(None, None, gpus=0), gpu_clock_mhz=2100),
    "gpu-clock-out-of-range": lambda: checked(test_tuning.clocks(208, 3003), gpu_clock_mhz=3004),
    "memory-too-small": lambda: checked(survey(memory={"total_mib": 64_000, "available_mib": 60_000})),
    "memory-too-small-alone": lambda: checked(
        survey(memory={"total_mib": 64_000, "available_mib": 60_000}), index=1, fallback="solo"
    ),
    "memory-kernel-takes": lambda: checked(
        running(total_mib=124_610, available_mib=8_192, min_free_kib=65_536), min_free_kbytes=4_194_304
    ),
    "memory-models-lack": taken_together,
    "memory-recipe-lacks": lambda: checked(spark(0.1), recipe="lab-tiny-llama"),
    "memory-share-lacks": lambda: checked(spark(100)),
    "disk-no-room": lambda: checked(
        survey(
            disks={
                name: {"path": "/", "free": 0, "device": 1, "read_only": False} for name in ("store", "docker", "files")
            }
        )
    ),
    "disk-read-only": lambda: checked(
        survey(
            disks={name: {**each, "read_only": True} for name, each in survey()["disks"].items()}, unwritable="/data"
        )
    ),
    "disk-store-not-the-login-s": lambda: checked(survey(unwritable="/data")),
    "disk-foreign-files": lambda: remarked(foreign=["/data/blobs"]),
    "port-held": lambda: checked(listener(8000)),
    "secret-files-open": lambda: checked(state(modes={"wrong": [], "refused": [["/etc is a link", "put it right"]]})),
    "secret-token-file": lambda: checked(survey(token="/root/token has mode 644")),
    "source-model-not-whole": lambda: checked(survey(source=["/models/x is missing"]), model_from="/models"),
    "source-archive-unfit": lambda: checked(survey(archives={"tandem/proxy:1": "/srv/x is no image archive"})),
    "rail-gone": lambda: checked(state(**LOST), node={"rails": ()}),
    "rail-missing": lambda: checked(state(links={})),
    "rail-no-carrier": lambda: checked(links(**{RAIL: {"carrier": False}})),
    "rail-down": lambda: checked(links(**{RAIL: {"up": False, "carrier": False, "addresses": ["192.168.178.11/24"]}})),
    "rail-no-connectx": lambda: checked(state(links={}), node={"rails": ()}),
    "rail-too-many": lambda: checked(survey(), node={"rails": ("enp1s0f0np0", RAIL, "a")}),
    "rdma-no-device": lambda: checked(links(**{RAIL: {"rdma": None}}), topology="cluster"),
    "login-by-rail": lambda: checked(survey(came_in_by=RAIL)),
    "login-in-rail-subnet": lambda: checked(survey(), node={"management": "192.168.177.40"}),
    "netplan-unread": lambda: checked(survey(netplan=[{"file": "/etc/netplan/9.yaml", "unread": "it is torn"}])),
    "netplan-gives-too": lambda: checked(
        survey(netplan=[{"file": "/etc/netplan/9.yaml", "device": RAIL, "gives": "an address"}])
    ),
    "firewall-shuts-rail": lambda: checked(survey(shut=test_owner_firewall.BOTH)),
    "firewall-shuts-proxy": lambda: remarked(shut=[DOOR]),
    "ring-port-gone": lambda: ring.torn(
        {"spark-1": {"enp1s0f0np0": {"addresses": ["192.168.177.11/26"]}}},  # type: ignore[typeddict-item]
        test_ring.RAILS,
    ),
    "ring-port-half": lambda: ring.check_netdevs({"spark-1": ("enp1s0f0np0",)}),
    "ring-gap": lambda: ring.gap(test_ring.heard(*test_ring.FORWARD[:2]), test_ring.NAMES, test_ring.NAMES),
    "address-of-a-node": lambda: address("10.0.0.12"),
    "address-no-office": lambda: address("10.0.0.50", office=""),
    "address-outside": lambda: address("10.0.1.50"),
    "address-reserved": lambda: address("10.0.0.255"),
    "address-held": lambda: address("10.0.0.50", {"mac": "bb:00:00:00:00:01"}),
    "address-vrrp-id-taken": lambda: address("10.0.0.50", {"vrids": {"50": ["10.0.0.7"]}}),
}


@pytest.mark.parametrize("code", RAISED)
def test_a_finding_of_a_deploy_has_its_code(code: str) -> None:
    raised = RAISED[code]()
    found = [raised] if isinstance(raised, Absence) else list(raised)
    told = [each if isinstance(each, str) else f"[{each.code}]" for each in found]
    assert any(f"[{code}]" in each for each in told), found


def test_every_kind_is_raised_by_a_test() -> None:
    asked = [code for code, test in ASKED.items() if code in (ROOT / test).read_text()]
    assert set(KINDS) == {*RAISED, *asked, *(code for code, *_ in CASES if code in KINDS)}


def test_codes_stay() -> None:
    """A new one is added to codes.txt. One that was published is neither renamed nor given another meaning."""
    assert sorted(KINDS) == CODES
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)+", code) for code in CODES)


def test_the_registry_has_every_kind_that_is_declared() -> None:
    """Asked of a process of its own: here other tests may have imported more."""
    declared = {
        code
        for file in (ROOT / "operations").rglob("*.py")
        for code in re.findall(r"\bKind\(\s*\"([^\"]+)\"", file.read_text())
    }
    ask = "from operations.plan.doctor.findings import KINDS; print(*KINDS)"
    done = subprocess.run([sys.executable, "-c", ask], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} == declared == {*KINDS}


def test_two_kinds_can_t_have_one_code() -> None:
    with pytest.raises(ValueError, match="have the code port-held"):
        Kind("port-held", "another")


def test_a_kind_that_the_node_words_says_what_helps_as_a_rule() -> None:
    with pytest.raises(ValueError, match="x-odd says nothing of what helps as a rule"):
        Kind("x-odd", "{problem}", "it means this", "{remedy}")
    every = [line for code in KINDS for line in verb.lines(code)]
    assert not [line for line in every if line.endswith(("remedy: <remedy>", "seen:   <problem>"))]


def test_every_kind_is_in_the_manual_under_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    page = messages.page()
    findings = page.partition("\n## Alarms\n")[0]
    assert sorted(re.findall(r"^### (.+)$", findings, re.MULTILINE)) == sorted(KINDS)
    entry = page.partition("\n### rail-mtu\n\n")[2].partition("\n\n")[0]
    assert entry.splitlines() == [
        "`<rail>` has MTU `<mtu>`, not `<wanted>`<br>",
        "It means: full frames don't get through, or every packet costs more<br>",
        "→ tandem apply sets it",
    ]
    monkeypatch.setitem(KINDS, "odd-one", KINDS["rail-mtu"])
    with pytest.raises(LookupError, match=r"odd-one: name a topic in manual/messages\.py"):
        messages.page()


def test_a_code_is_explained() -> None:
    assert verb.lines("rail-down") == [
        "rail-down",
        "  seen:   the rail <rail> is down",
        "  means:  nothing goes over it",
        "  remedy: on <node>: sudo ip link set <rail> up",
    ]
    # What the node words itself has a remedy all the same.
    assert verb.lines("gpu-taken")[1] == "  seen:   the line in front of `[gpu-taken]` has the names"
    assert "end that program" in verb.lines("gpu-taken")[3]
    with pytest.raises(Refusal, match=r"no finding and no alarm is called `rail-dwn`\n.*did you mean `rail-down`\?"):
        verb.lines("rail-dwn")
    with pytest.raises(Refusal, match=r"in brackets behind a finding; all codes and alarms: docs/messages"):
        verb.lines("x")


def test_a_refusal_names_the_code_behind_the_line() -> None:
    table = str(Refusal(*checked(survey(openssl=False), tls="self"), Finding("data", "no knob", "write one")))
    assert "spark-1  tls=self needs openssl [node-no-openssl]\n" in table and "data     no knob\n" in table
