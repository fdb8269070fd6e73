"""What containers and units are given is in force on a node: asked of the kernel, and tried."""

from __future__ import annotations

import re

import pytest

from operations.paths import (
    ADMIN,
    CANARY,
    ENGINE,
    FIREWALL,
    GUARD,
    LITELLM,
    PROXY,
    PROXY_CONFIG,
    PROXY_KEY,
    PROXY_LOADED,
    PROXY_RUN,
    PROXY_USER,
    SHARED,
)
from tests.lab import cluster
from tests.lab.cluster import HEAD, WORKER, deploy, on
from tests.lab.settings import LabNode

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("ray_cluster")]

#: Numbers of capabilities, as capabilities(7) has them.
DAC_OVERRIDE, KILL, NET_ADMIN, NET_RAW = 1 << 1, 1 << 5, 1 << 12, 1 << 13
CASES = [(node, unit) for node in (HEAD, WORKER) for unit in (CANARY, GUARD)]


def status(node: LabNode, pid: str) -> dict[str, str]:
    """Of a process, as the kernel has it."""
    return dict(re.findall(r"^(\w+):\s+(.*)$", on(node, f"cat /proc/{pid}/status"), re.MULTILINE))


def in_container(container: str, node: LabNode = HEAD) -> str:
    """The number, on the node, of what runs in a container: behind Docker's own first process."""
    first = on(node, "docker inspect --format '{{.State.Pid}}' " + container).strip()
    return on(node, f"pgrep --parent {first} | head -n 1").strip() or first


def works(container: str, command: str, node: LabNode = HEAD) -> bool:
    """Whether a command succeeds in a container, run as its own user is."""
    return "yes" in on(node, f"docker exec {container} sh -c '{command}' && echo yes", check=False)


def has_nothing(node: LabNode, container: str) -> None:
    """No root, no capability, nothing to be gained."""
    said = status(node, in_container(container, node))
    assert said["Uid"].split() == said["Gid"].split() == [str(PROXY_USER)] * 4
    assert {int(said[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")} == {0}
    assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")


@pytest.mark.parametrize("unit", LITELLM)
def test_a_litellm_has_no_right_and_writes_to_two_folders(unit: str) -> None:
    for node in (HEAD, WORKER):
        has_nothing(node, unit)
        places = {"/": False, "/tandem": False, "/secrets": False, "/opt": False}
        for place, can in (places | {"/tmp": True, "/used": True, "/shared": True}).items():
            assert works(unit, f"touch {place}/x && rm {place}/x", node) is can, place
        assert not works(unit, "cp /bin/true /tmp/x && /tmp/x", node)


def test_haproxy_has_no_right_and_writes_to_one_folder(at: dict[str, str]) -> None:
    for node in (HEAD, WORKER):
        has_nothing(node, PROXY)
        for place, can in {"/": False, "/tandem": False, "/tmp": True, PROXY_RUN: True}.items():
            assert works(PROXY, f"touch {place}/x && rm {place}/x", node) is can, place
        assert not works(PROXY, "cat /tandem/secrets/master.key", node)
        assert works(LITELLM[0], "cat /secrets/master.key >/dev/null", node)
    assert cluster.complete(at) == 8


def test_haproxy_s_socket_is_its_own_and_root_s() -> None:
    """It is loaded anew as well: the new process takes socket and listeners over without a right."""
    ask = f"import socket as s; c = s.socket(s.AF_UNIX); c.connect('{ADMIN}'); c.sendall(b'show info\\n'); "
    ask += "print(c.recv(16).decode().split()[0])"
    stranger = "setpriv --reuid 65531 --regid 65531 --clear-groups"
    for node in (HEAD, WORKER):
        on(node, f"systemctl reload {PROXY}")
        on(node, f"for i in $(seq 50); do [ -S {ADMIN} ] && break; sleep 0.1; done")
        assert on(node, f"stat --format '%a %u' {PROXY_RUN} {ADMIN}").split() == [
            *("700", str(PROXY_USER)),
            *("600", str(PROXY_USER)),
        ]
        assert on(node, f'python3 -c "{ask}"') == "Name:\n"
        assert "Name:" not in on(node, f'{stranger} python3 -c "{ask}"', check=False)
        assert on(node, f"stat --format %u {PROXY_LOADED}") == "0\n"
        assert on(node, f"cut -c-64 {PROXY_LOADED}") == on(node, f"sha256sum <{PROXY_CONFIG} | cut -c-64")


def test_both_litellm_share_what_is_theirs_alone() -> None:
    for node in (HEAD, WORKER):
        assert on(node, f"stat --format '%a %u' {SHARED}") == f"700 {PROXY_USER}\n"
        files = on(node, f"stat --format '%a %u %n' {SHARED}/*").splitlines()
        assert {line.rsplit(" ", 1)[0] for line in files} == {f"600 {PROXY_USER}"}
        # One that has died leaves its own until somebody looks.
        assert sum(line.endswith(".counts") for line in files) >= 2, files
        for unit in LITELLM:
            log = on(node, f"journalctl --no-pager --output cat -u {unit}")
            assert "PermissionError" not in log and "can't be written" not in log, log[-2000:]


def test_keys_are_the_proxies_alone() -> None:
    for node in (HEAD, WORKER):
        assert on(node, f"stat --format '%a %u %g' {PROXY_KEY}") == f"600 {PROXY_USER} {PROXY_USER}\n"
        assert on(node, f"stat --format '%a %u' $(dirname {PROXY_KEY}) /var/lib/tandem/keys").split("\n") == [
            f"700 {PROXY_USER}",
            f"700 {PROXY_USER}",
            "",
        ]
        key = on(node, f"cat {PROXY_KEY}").strip()
        assert key not in on(
            node, f"docker inspect {PROXY} {' '.join(LITELLM)}; systemctl show {PROXY} {LITELLM[0]}; ps axww -o args"
        )


def test_what_keys_use_is_written(at: dict[str, str]) -> None:
    cluster.complete(at)
    on(HEAD, "for i in $(seq 50); do [ -s /var/lib/tandem/keys/used.json ] && break; sleep 0.2; done")
    assert '"owner"' in on(HEAD, "cat /var/lib/tandem/keys/used.json")
    assert on(HEAD, "stat --format '%a %u' /var/lib/tandem/keys/used.*") == f"600 {PROXY_USER}\n" * 2


def test_files_that_a_litellm_of_root_s_has_left_are_its_user_s_when_it_starts(at: dict[str, str]) -> None:
    """As an upgrade finds them. HAProxy's folder is made anew, those of both LiteLLM are given to them."""
    on(WORKER, f"systemctl stop {PROXY} {' '.join(LITELLM)}")
    on(WORKER, f"chown -R root: {PROXY_RUN} {SHARED} /var/lib/tandem/keys && truncate -s 4096 {SHARED}/0123.counts")
    left = f"import socket as s; s.socket(s.AF_UNIX).bind('{ADMIN}')"
    on(WORKER, f'mkdir -p {PROXY_RUN} && rm -f {ADMIN} && python3 -c "{left}"')
    on(WORKER, f"systemctl start --no-block {' '.join(LITELLM)} {PROXY}")
    repaired = deploy(topology="cluster", executor="ray")
    assert repaired.code == 0, repaired.text
    own = on(WORKER, f"find {PROXY_RUN} {SHARED} /var/lib/tandem/keys -not -uid {PROXY_USER}")
    assert own == ""
    assert cluster.complete({**at, "OPENAI_BASE_URL": f"http://{WORKER.address}:8000/v1"}) == 8
    assert deploy(topology="cluster", executor="ray").changes == 0


def test_the_engine_keeps_what_is_written_down() -> None:
    said = status(HEAD, in_container(ENGINE))
    assert int(said["CapBnd"], 16) == int(said["CapEff"], 16) == DAC_OVERRIDE
    assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")
    assert not works(ENGINE, "chown 1:1 /root/.cache")


@pytest.mark.parametrize(("node", "unit"), CASES, ids=[f"{node.name}-{unit}" for node, unit in CASES])
def test_a_program_keeps_one_capability(node: LabNode, unit: str) -> None:
    pid = on(node, f"systemctl show --property MainPID --value {unit}").strip()
    said = status(node, pid)
    assert int(said["CapBnd"], 16) == {CANARY: NET_RAW, GUARD: KILL}[unit]
    assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")
    # Its own view of the disk: nothing to be changed there, and nothing of the homes to be seen.
    within = f"nsenter --target {pid} --mount"
    for place in ("/etc/tandem", "/usr", "/var/lib/tandem", "/"):
        assert "yes" not in on(node, f"{within} touch {place}/x 2>/dev/null && echo yes", check=False), place
    assert on(node, f"{within} ls /home") == ""


def test_the_canary_sees_systemd_docker_and_the_other_node() -> None:
    for node in (HEAD, WORKER):
        seen = on(node, "cat /run/tandem/canary.json")
        assert '"away": {}' in seen and '"rails": []' in seen, seen
        log = on(node, f"journalctl --no-pager -u {CANARY} --since=-5min")
        assert "not permitted" not in log and "Traceback" not in log, log


def test_the_canary_s_own_words_with_the_node_work_in_its_sandbox() -> None:
    """As `canary.py` says them, in a unit with the same lines."""
    program = 'import sys; sys.path.insert(0, "/etc/tandem/canary"); import node, rails; '
    program += f'print(bool(node.invocation("{PROXY}")), bool(node.control_group("{PROXY}")), '
    program += 'bool(rails.addresses()), rails.silent_nodes({"me": "127.0.0.1"}))'
    lines = on(HEAD, f"sed -n '/^CapabilityBounding/,/^$/p' /etc/systemd/system/{CANARY}.service").splitlines()
    options = " ".join(f"--property='{line}'" for line in lines if "=" in line and not line.startswith("#"))
    said = on(HEAD, f"systemd-run --quiet --wait --pipe --collect {options} python3 -c '{program}'")
    assert said == "True True True []\n"


def test_the_firewall_is_in_force_after_it_was_loaded_in_their_sandbox() -> None:
    for node in (HEAD, WORKER):
        on(node, f"systemctl restart {FIREWALL}")
        assert on(node, "/etc/tandem/firewall/firewall.sh problem") == ""


def test_modes_that_were_changed_are_put_right_with_a_line() -> None:
    on(HEAD, f"chmod 644 {PROXY_KEY}; chown root: {PROXY_KEY}; chmod 777 /etc/tandem/proxy")
    repaired = deploy(topology="cluster", executor="ray")
    assert repaired.code == 0, repaired.text
    assert "master.key has mode 644, not 600" in repaired.text and "/etc/tandem/proxy has mode 777" in repaired.text
    assert on(HEAD, f"stat --format '%a %u' {PROXY_KEY}") == f"600 {PROXY_USER}\n"
    assert deploy(topology="cluster", executor="ray").changes == 0


def test_a_folder_above_that_all_can_write_to_is_refused() -> None:
    on(WORKER, "chmod o+w /etc")
    try:
        refused = deploy(topology="cluster", executor="ray")
    finally:
        on(WORKER, "chmod o-w /etc")
    assert refused.code != 0 and "/etc has mode 757" in refused.text
    assert "sudo chown root: /etc && sudo chmod go-w /etc" in refused.text
