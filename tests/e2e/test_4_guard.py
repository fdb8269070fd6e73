"""The memory guard's kill on a node: a real container of Docker's, ended by the kernel through its control group."""

from __future__ import annotations

import pytest

from operations.paths import SLICE
from tests.lab import guarding
from tests.lab.cluster import ROOT, WORKER, on

pytestmark = pytest.mark.lab

GUARD = ROOT / "files/guard/guard.py"


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("parent", [SLICE, "system.slice"], ids=["where engines are", "where the firewall knows none"])
def test_it_ends_a_container_through_cgroup_kill(parent: str) -> None:
    # Version 2 alone, as on DGX OS, whatever this machine has mounted.
    assert on(WORKER, "stat -f --format %T /sys/fs/cgroup") == "cgroup2fs\n"
    on(WORKER, f"cat >/tmp/guard.py <<'END'\n{GUARD.read_text()}END")
    libraries = "$(ldd /bin/sleep | grep -o '/[^ ]*')"
    on(WORKER, f"tar --create --dereference /bin/sleep {libraries} 2>/dev/null | docker import - lab-sleeper")
    try:
        options = f"--network none --cgroup-parent {parent} --cidfile /tmp/sleeper.cid --name lab-sleeper"
        run = f"docker run --detach {options} lab-sleeper"
        on(WORKER, f"{run} /bin/sleep 600 && docker exec --detach lab-sleeper /bin/sleep 601")
        scope = f"/sys/fs/cgroup/{parent}/docker-$(cat /tmp/sleeper.cid).scope"
        assert len(on(WORKER, f"cat {scope}/cgroup.procs").split()) == 2
        assert guarding.kill(WORKER, "/tmp/sleeper.cid", "/tmp/guard.py")
        assert on(WORKER, "docker wait lab-sleeper") == "137\n"
        assert on(WORKER, "pgrep -f '^/bin/sleep 60[01]$'", check=False) == ""
    finally:
        on(WORKER, "docker rm --force lab-sleeper; docker rmi lab-sleeper; rm -f /tmp/sleeper.cid /tmp/guard.py")
