"""What containers and units are given is in force on a node: asked of the kernel, and tried."""

from __future__ import annotations

import re

import pytest

from operations.plan.places import CANARY, ENGINE, GUARD, PROXY, PROXY_KEY, PROXY_USER, WALLS
from tests.e2e import cluster
from tests.e2e.cluster import HEAD, WORKER, deploy, on
from tests.lab.settings import LabNode

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("ray_cluster")]

#: Numbers of capabilities, as capabilities(7) has them.
DAC_OVERRIDE, KILL, NET_ADMIN, NET_RAW = 1 << 1, 1 << 5, 1 << 12, 1 << 13
CASES = [(node, unit) for node in (HEAD, WORKER) for unit in (CANARY, GUARD)]


def status(node: LabNode, pid: str) -> dict[str, str]:
    """Of a process, as the kernel has it."""
    return dict(re.findall(r"^(\w+):\s+(.*)$", on(node, f"cat /proc/{pid}/status"), re.MULTILINE))


def in_container(container: str) -> str:
    """The number, on the node, of the container's first process."""
    return on(HEAD, "docker inspect --format '{{.State.Pid}}' " + container).strip()


def works_as_root(container: str, command: str) -> bool:
    """Whether a command succeeds in a container, run as its own user is."""
    return "yes" in on(HEAD, f"docker exec {container} sh -c '{command}' && echo yes", check=False)


def test_the_proxy_has_no_right_and_nowhere_to_write(at: dict[str, str]) -> None:
    said = status(HEAD, in_container(PROXY))
    assert said["Uid"].split() == said["Gid"].split() == [str(PROXY_USER)] * 4
    assert {int(said[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")} == {0}
    assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")
    for place, can in (("/", False), ("/tandem", False), ("/opt", False), ("/tmp", True), ("/used", True)):
        assert works_as_root(PROXY, f"touch {place}/x && rm {place}/x") is can, place
    assert not works_as_root(PROXY, "cp /bin/true /tmp/x && /tmp/x")
    assert cluster.complete(at) == 8


def test_the_owner_s_key_is_the_proxy_s_alone() -> None:
    assert on(HEAD, f"stat --format '%a %u %g' {PROXY_KEY}") == f"600 {PROXY_USER} {PROXY_USER}\n"
    assert on(HEAD, f"stat --format '%a %u' $(dirname {PROXY_KEY}) /var/lib/tandem/keys").split("\n") == [
        f"700 {PROXY_USER}",
        f"700 {PROXY_USER}",
        "",
    ]
    key = on(HEAD, f"cat {PROXY_KEY}").strip()
    assert key not in on(HEAD, f"docker inspect {PROXY}; systemctl show {PROXY}; ps axww -o args")


def test_what_keys_use_is_written(at: dict[str, str]) -> None:
    cluster.complete(at)
    on(HEAD, "for i in $(seq 50); do [ -s /var/lib/tandem/keys/used.json ] && break; sleep 0.2; done")
    assert '"owner"' in on(HEAD, "cat /var/lib/tandem/keys/used.json")
    assert on(HEAD, "stat --format '%a %u' /var/lib/tandem/keys/*") == f"600 {PROXY_USER}\n" * 2


def test_the_engine_keeps_what_is_written_down() -> None:
    said = status(HEAD, in_container(ENGINE))
    assert int(said["CapBnd"], 16) == int(said["CapEff"], 16) == DAC_OVERRIDE
    assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")
    assert not works_as_root(ENGINE, "chown 1:1 /root/.cache")


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


def test_the_walls_stand_again_after_they_were_loaded_in_their_sandbox() -> None:
    for node in (HEAD, WORKER):
        on(node, f"systemctl restart {WALLS}")
        assert on(node, "/etc/tandem/walls/walls.sh problem") == ""


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
