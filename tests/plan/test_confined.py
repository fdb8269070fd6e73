"""What containers and units are given."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from typing import Any

import pytest

from operations.paths import ADDRESS, KEYS_USED, LITELLM, PROXY, PROXY_KEY, PROXY_RUN, PROXY_USER, SHARED, SOCKETS
from operations.plan.recipes.formats import load_recipe
from operations.plan.services.proxy_memory import BOUNDS
from operations.plan.services.service import Program, Service, confined, lessened
from tests.plan.samples import ROOT, engine_of, knobs, make_plan, nodes, plan

#: What puts every service of the plan on the head.
ALL: dict[str, Any] = {
    "topology": "replicas",
    "monitoring": "prometheus",
    "alarms": [{"webhook": "https://example.org/hook"}],
    "proxy_bind": "all",
    "proxy_address": "10.0.0.50",
    "tls": "self",
}


def docker(service: Program | None) -> list[str]:
    """The container's command line."""
    assert service
    run = next(file.content for file in service.files if file.path.endswith("/run.sh"))
    return shlex.split(next(line for line in run.splitlines() if line.startswith("exec ")))


def kept(argv: list[str]) -> set[str]:
    """Capabilities, of which all others are dropped."""
    assert ("--cap-drop", "ALL") in pairwise(argv)
    assert ("--security-opt", "no-new-privileges") in pairwise(argv)
    return {name for word, name in pairwise(argv) if word == "--cap-add"}


@pytest.mark.parametrize("topology", ["solo", "cluster", "replicas"])
def test_proxies_have_no_root_no_capability_and_write_to_their_own_folders_alone(topology: str) -> None:
    meet = f"{SOCKETS}:{SOCKETS}"
    own = {unit: [meet, f"{SHARED}:/shared", f"{KEYS_USED}:/used"] for unit in LITELLM}
    own[PROXY] = [f"{PROXY_RUN}:{PROXY_RUN}", meet]
    for node in plan(topology=topology).serving:
        for service in (node.container(PROXY), *map(node.container, LITELLM)):
            argv = docker(service)
            assert kept(argv) == set()
            assert ("--user", f"{PROXY_USER}:{PROXY_USER}") in pairwise(argv)
            assert "--read-only" in argv and "--pids-limit" in argv
            writable = [name for word, name in pairwise(argv) if word == "--volume" and name[-3:] != ":ro"]
            assert writable == own[service.unit]


def test_haproxy_sees_no_key() -> None:
    argv = docker(plan(topology="solo").head.container(PROXY))
    assert ("--volume", "/etc/tandem/proxy:/tandem:ro") in pairwise(argv)
    assert ("--tmpfs", "/tandem/secrets:ro,size=4k") in pairwise(argv)
    assert "/etc/tandem/proxy/secrets" in PROXY_KEY


def test_keepalived_has_what_moves_an_address_and_writes_nowhere() -> None:
    argv = docker(plan(topology="replicas", proxy_bind="all", proxy_address="10.0.0.50").head.container(ADDRESS))
    assert kept(argv) == {"NET_ADMIN", "NET_RAW", "SYS_NICE", "IPC_LOCK", "SETGID"}
    assert "--read-only" in argv
    assert all(name.endswith(":ro") for word, name in pairwise(argv) if word == "--volume")


def test_an_engine_has_what_a_gpu_and_its_files_take() -> None:
    wanted = knobs(topology="cluster")
    recipe = load_recipe(wanted.recipe)
    assert recipe.needs.gpu and not recipe.start_mods
    for mods, port, more in (
        ((), 8001, set()),
        ((), 80, {"NET_BIND_SERVICE"}),
        (("a",), 8001, {"CHOWN", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"}),
    ):
        changed = recipe.model_copy(update={"start_mods": mods})
        planned = make_plan(changed, knobs(topology="cluster", engine_port=port), nodes(2, wanted))
        argv = docker(engine_of(planned.head))
        assert kept(argv) == {"DAC_OVERRIDE", "IPC_LOCK"} | more
        assert not {"--privileged", "--ipc", "--pid"} & set(argv)


def test_an_engine_without_a_gpu_locks_no_memory() -> None:
    assert kept(docker(engine_of(plan(topology="solo", recipe="lab-tiny-llama").head))) == {"DAC_OVERRIDE"}


def test_any_container_can_be_confined() -> None:
    assert confined(0, "NET_BIND_SERVICE", scratch="1m", processes=9, memory="2g") == [
        *("--user", "0:0", "--cap-drop", "ALL", "--cap-add", "NET_BIND_SERVICE"),
        *("--security-opt", "no-new-privileges", "--pids-limit", "9", "--memory", "2g", "--memory-swap", "2g"),
        "--read-only",
        *("--tmpfs", "/tmp:rw,nosuid,nodev,noexec,size=1m", "--env", "HOME=/tmp"),
    ]
    assert lessened() == ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]


@pytest.mark.parametrize("unit", ["tandem-guard", "tandem-canary", "tandem-firewall"])
def test_programs_of_ours_have_one_capability_and_a_disk_that_is_read_only(unit: str) -> None:
    program = plan(topology="cluster").head.services[unit]
    assert program
    lines = next(file.content for file in program.files if file.path.endswith(".service")).splitlines()
    (bounds,) = [line for line in lines if line.startswith("CapabilityBoundingSet=")]
    assert len(bounds.partition("=")[2].split()) == 1
    assert {"NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "SystemCallFilter=@system-service"} <= {
        *lines
    }
    assert lines.index("SystemCallFilter=@system-service") < next(
        number for number, line in enumerate(lines) if line.startswith("SystemCallFilter=~")
    )


def test_a_program_of_ours_that_ends_is_started_again_whatever_it_ends_of() -> None:
    """systemd's own limit, five starts within ten seconds, leaves a unit down for good."""
    nodes_of = plan(topology="cluster", executor="mp", fallback="solo", monitoring="prometheus")
    texts = {
        program.unit: next(file.content for file in program.files if file.path.endswith(".service"))
        for program in nodes_of.head.services.values()
        if program and program.unit.removeprefix("tandem-") in ("guard", "canary", "fallback", "exporter", "page")
    }
    assert {"tandem-guard", "tandem-canary", "tandem-fallback", "tandem-exporter", "tandem-page"} == set(texts)
    for unit, text in texts.items():
        pause = next(line.partition("=")[2] for line in text.splitlines() if line.startswith("RestartSec="))
        assert "Restart=always" in text
        assert "StartLimitIntervalSec=0\n" in text or 4 * float(pause) > 10, unit


def test_what_strangers_make_grow_is_bounded_and_goes_before_an_engine() -> None:
    """By the kernel, which ends one that has more than its bound, and where all memory is gone takes it first."""
    head = plan(topology="solo").head
    engine = docker(head.container("tandem-engine"))
    for service in (head.container(PROXY), *map(head.container, LITELLM)):
        assert service
        argv, bound = docker(service), BOUNDS[service.unit]
        most = f"{bound.most_mib}m"
        assert ("--memory", most) in pairwise(argv) and ("--memory-swap", most) in pairwise(argv)
        assert bound.idle_mib < bound.usual_mib < bound.most_mib
        assert _score(argv) > _score(engine) > 0
        # By this the guard finds it; Docker starts none where it is left.
        written = next(file for word, file in pairwise(argv) if word == "--cidfile")
        ready = next(file.content for file in service.files if file.path.endswith("/ready.sh"))
        assert f"\nrm -f {written}\n" in ready


def _score(argv: list[str]) -> int:
    return int(next(score for word, score in pairwise(argv) if word == "--oom-score-adj"))


def test_who_goes_first_where_all_memory_is_gone() -> None:
    """docs/security.md says the order: what is back in seconds before what loads for minutes, the guard never."""
    of = plan(**ALL)
    scores, bounds = dict[str, int](), dict[str, bool]()
    for unit, service in of.head.services.items():
        if isinstance(service, Service):
            argv = docker(service)
            said = next((score for word, score in pairwise(argv) if word == "--oom-score-adj"), "0")
            bounds[unit] = "--memory" in argv
        elif service:
            text = next(file.content for file in service.files if file.path.endswith(".service"))
            found = re.search(r"^OOMScoreAdjust=(-?\d+)$", text, re.MULTILINE)
            said, bounds[unit] = found[1] if found else "0", "\nMemoryMax=" in text
        scores[unit] = int(said)
    watches = {"tandem-page", "tandem-exporter", "tandem-prometheus", "tandem-alertmanager"}
    by_score = {score: {unit for unit in scores if scores[unit] == score} for score in set(scores.values())}
    assert by_score.pop(0) & {"tandem-canary", "tandem-office", "tandem-address"}
    doors = {PROXY, *LITELLM}
    assert by_score == {1000: watches, 900: doors, 500: {"tandem-engine"}, -1000: {"tandem-guard"}}
    assert all(bounds[unit] for unit in watches | doors) and not bounds["tandem-engine"]


def test_what_not_everybody_may_read_is_named() -> None:
    of = plan(**ALL)
    files = [file for each in of.nodes for service in each.services.values() if service for file in service.files]
    shut = {file.path for file in files if file.mode not in ("644", "755")}
    assert shut == {"/etc/tandem/engine/engine.env", "/etc/tandem/alertmanager/alertmanager.yml"}
    text = (ROOT / "docs/security.md").read_text()
    assert all(f"`{path}`" in text for path in shut)


def test_a_host_that_is_named_for_pictures_sends_an_engine_nowhere_else() -> None:
    """vLLM would follow it, into its node's own network. What nobody has named changes no engine."""
    word = "VLLM_MEDIA_URL_ALLOW_REDIRECTS=0"
    for hosts, is_told in (([], False), (["images.example.org"], True)):
        engine = engine_of(plan(topology="solo", media_domains=hosts).head)
        assert any(word in file.content for file in engine.files) == is_told
