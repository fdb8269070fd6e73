"""Disk, memory, a port and a model that can't be had."""

from __future__ import annotations

from tests.chaos.acts import all_of, sh
from tests.chaos.deploying import never_loads
from tests.chaos.fault import EITHER, KILL, SHARD, START, STOP, Fault
from tests.chaos.running_short import deploy_on_a_full_disk, full, memory_hog, room_again
from tests.lab import cluster
from tests.lab.cluster import HEAD, WORKER

#: Another program on the engine's port.
SQUATTER = (
    "systemd-run --quiet --unit=squatter --collect python3 -c "
    "'import socket,time; s=socket.create_server((\"0.0.0.0\", 8001)); time.sleep(600)'"
)
HUB = cluster.STORE.rpartition("/")[0]
#: Where Docker writes at each start.
CONTAINERS = "/var/lib/docker/containers"

SHORTAGE = [
    Fault(
        "the port taken while it was down",
        sh(HEAD, f"{STOP}; {SQUATTER}; {START}"),
        "waits until it is free",
        EITHER,
        undo=sh(HEAD, "systemctl stop squatter"),
        held_s=10,
    ),
    Fault(
        "disk full on /var/lib/docker, then a restart",
        all_of(full(WORKER, CONTAINERS), sh(WORKER, KILL)),
        "waits until there is room",
        EITHER,
        undo=room_again(WORKER, CONTAINERS),
        held_s=15,
    ),
    Fault(
        "disk full on the store, a shard gone",
        all_of(sh(WORKER, f"rm $(readlink -f {SHARD})"), deploy_on_a_full_disk(WORKER, HUB, f"{HUB} has 0.0 GiB free")),
        "a deploy says so before the copy, and it serves on; with room it fetches the shard",
        ("replicas",),
        "deploy",
        undo=room_again(WORKER, HUB),
    ),
    Fault(
        "disk full on /",
        deploy_on_a_full_disk(WORKER, "/etc/tandem", "/etc/tandem has 0.0 GiB free"),
        "a deploy says so before it changes anything; it serves on",
        ("replicas",),
        "nothing",
        undo=room_again(WORKER, "/etc/tandem"),
    ),
    Fault(
        "memory hog", memory_hog, "the guard kills the engine, which comes back; minutes to take it all", ("replicas",)
    ),
    Fault(
        "a model that can't load",
        never_loads,
        "six starts, then it stays down, its memory is free, and status says why",
        ("solo",),
        "deploy",
        takes_minutes=True,
    ),
]
