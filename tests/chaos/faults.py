"""The faults: what is done, in which scenes, and what is expected of it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.chaos.acts import (
    Act,
    all_of,
    deploy_killed_at,
    deploy_on_a_full_disk,
    full,
    management_cut_in_a_deploy,
    memory_hog,
    netplan_unconfirmed,
    never_loads,
    on_lab,
    power,
    reboot,
    rolled,
    rolled_back,
    room_again,
    send,
    sh,
)
from tests.e2e import cluster
from tests.e2e.cluster import HEAD, WORKER
from tests.lab import model

ALL = ("replicas", "cluster/ray", "cluster/mp", "solo")
PAIRS = ALL[:3]
#: Where it makes no difference who starts the ranks.
EITHER = ALL[:2]
SHARD = f"{cluster.STORE}/snapshots/{model.revision()}/model-00001-of-00002.safetensors"


@dataclass(frozen=True)
class Fault:
    """One row of the matrix. Times are seconds.

    `heals`: `itself`, `deploy` (only a deploy puts it right) or `nothing` (what serves is not touched at all).
    `on_head`: the proxy or what it stands on is hit, so requests that were under way are lost in any topology.
    `undo` ends the fault `held_s` after it began; the time to serve again counts from there.
    `patience_s`: how much more than a cold start and 15 s it may take, with the reason in `expected`.
    `takes_minutes`: it waits for starts of engines by itself, so clients pause from its begin.
    `told`: words that the deploy afterwards says of what had drifted.
    """

    name: str
    do: Act
    expected: str
    scenes: tuple[str, ...] = ALL
    heals: str = "itself"
    on_head: bool = False
    undo: Act | None = None
    held_s: float = 0.0
    patience_s: float = 0.0
    takes_minutes: bool = False
    told: str = ""
    fast: tuple[str, ...] = ()


BACK = "serves again by itself"
#: Docker commands.
KILL = "docker kill tandem-engine"
UNNAME = "docker rmi --force $(docker inspect --format '{{.Config.Image}}' tandem-engine)"
BY_HAND = (
    "docker run --detach --network none --name tandem-engine --entrypoint sleep "
    "$(docker images --quiet tandem/engine | head -n 1) 600"
)
#: Another program on the engine's port.
SQUATTER = (
    "systemd-run --quiet --unit=squatter --collect python3 -c "
    "'import socket,time; s=socket.create_server((\"0.0.0.0\", 8001)); time.sleep(600)'"
)
HUB = cluster.STORE.rpartition("/")[0]
#: Where Docker writes at each start.
CONTAINERS = "/var/lib/docker/containers"
STOP, START = "systemctl stop tandem-engine", "systemctl start --no-block tandem-engine"
#: Where a deploy is killed, and how many seconds into it.
PHASES = {
    "Fabric | addresses": 0.2,
    "Image | the engine's, on the head": 0.2,
    "Model | on the head": 0.2,
    "Engine | stop what is not the plan's, on the head": 0.5,
    "Engine | files": 0.3,
    "Upkeep | files": 0.3,
    "Engine | start on the head": 1.0,
    "Engine | a token from each": 5.0,
    "Proxy | run": 0.5,
}
#: Those at which a cluster differs: its engine has to be stopped on all nodes, and to meet.
MEETING = ("Engine | files", "Engine | start on the head", "Engine | a token from each")

FAULTS = [
    Fault("reboot worker", reboot(WORKER), BACK, PAIRS),
    Fault("reboot head", reboot(HEAD), BACK, on_head=True),
    Fault("reboot both at once", reboot(HEAD, WORKER), BACK, PAIRS, on_head=True, fast=("cluster/ray",)),
    Fault("power cut of the worker", power(WORKER), BACK, PAIRS),
    Fault("power cut of the head", power(HEAD), BACK, on_head=True),
    Fault("power cut of both at once", power(HEAD, WORKER), BACK, PAIRS, on_head=True),
    Fault("SIGKILL engine container, worker", sh(WORKER, KILL), BACK, PAIRS, fast=("cluster/ray",)),
    Fault("SIGKILL engine container, head", sh(HEAD, KILL), BACK),
    Fault("SIGKILL Ray head (GCS)", send("KILL", HEAD, "ray/gcs/gcs_server"), BACK, ("cluster/ray",)),
    Fault("SIGKILL raylet, worker", send("KILL", WORKER, "raylet/raylet "), BACK, ("cluster/ray",)),
    Fault("SIGKILL raylet, head", send("KILL", HEAD, "raylet/raylet "), BACK, ("cluster/ray",)),
    Fault("SIGKILL vLLM's worker process", send("KILL", WORKER, "ray::RayWorkerProc"), BACK, ("cluster/ray",)),
    Fault("SIGKILL vLLM's worker process", send("KILL", WORKER, "VLLM::Worker"), BACK, ("cluster/mp",)),
    Fault("SIGKILL vLLM's engine core", send("KILL", WORKER, "VLLM::EngineCore"), BACK, ("replicas",)),
    Fault("SIGKILL vLLM's engine core", send("KILL", HEAD, "VLLM::EngineCore"), BACK, ("cluster/ray", "cluster/mp")),
    Fault("SIGKILL proxy", sh(HEAD, "docker kill tandem-proxy"), BACK, EITHER, on_head=True),
    Fault("SIGKILL dockerd, worker", send("KILL", WORKER, "dockerd -H"), BACK, EITHER),
    Fault("SIGKILL dockerd, head", send("KILL", HEAD, "dockerd -H"), BACK, EITHER, on_head=True),
    Fault(
        "SIGSTOP API server",
        send("STOP", WORKER, "vllm serve "),
        "the canary kills it",
        ("replicas",),
        fast=("replicas",),
    ),
    Fault("SIGSTOP API server", send("STOP", HEAD, "vllm serve "), "the canary kills it", ALL[1:]),
    Fault("SIGSTOP engine core", send("STOP", WORKER, "VLLM::EngineCore"), "the canary kills it", ("replicas",)),
    Fault("SIGSTOP engine core", send("STOP", HEAD, "VLLM::EngineCore"), "the canary kills it", ALL[1:]),
    Fault(
        "SIGSTOP worker process", send("STOP", WORKER, "ray::RayWorkerProc"), "the canary kills it", ("cluster/ray",)
    ),
    Fault("SIGSTOP worker process", send("STOP", WORKER, "VLLM::Worker"), "the canary kills it", ("cluster/mp",)),
    Fault(
        "rail 0 cut for 5 s",
        on_lab("cut", "spark-2:rail0"),
        "nothing is started anew",
        PAIRS,
        undo=on_lab("heal", "spark-2:rail0"),
        held_s=5,
    ),
    Fault(
        "rail 0 cut for 5 minutes",
        on_lab("cut", "spark-2:rail0"),
        "serves again when it is back",
        EITHER,
        undo=on_lab("heal", "spark-2:rail0"),
        held_s=300,
    ),
    Fault(
        "one rail of two cut",
        on_lab("cut", "spark-2:rail1"),
        "serves on over the other",
        EITHER,
        "nothing",
        undo=on_lab("heal", "spark-2:rail1"),
        held_s=20,
    ),
    Fault(
        "MTU 1500 on one side",
        sh(WORKER, "ip link set enp1s0f0np0 mtu 1500"),
        "named; the deploy sets it; ranks that hang on it start anew",
        EITHER,
        "nothing",
        told="has MTU 1500, not 9000",
        held_s=5,
    ),
    Fault(
        "fabric address removed",
        sh(WORKER, "ip addr del 192.168.177.12/24 dev enp1s0f0np0"),
        "named; the deploy sets it",
        EITHER,
        "deploy",
        told="has not the address",
        held_s=20,
    ),
    Fault(
        "power cut before a netplan file is confirmed",
        netplan_unconfirmed,
        "the boot takes the file back",
        ("cluster/ray",),
        patience_s=60,
    ),
    Fault(
        "management cut in the middle of a deploy",
        management_cut_in_a_deploy,
        "the next deploy converges",
        EITHER,
        "deploy",
    ),
    *(
        Fault(
            f"deploy killed: {operation}",
            deploy_killed_at(operation, after_s),
            "the next deploy converges",
            EITHER if operation in MEETING else ("replicas",),
            "deploy",
            takes_minutes=True,
        )
        for operation, after_s in PHASES.items()
    ),
    Fault(
        "deploy killed in the copy of an image",
        deploy_killed_at(
            "Image | the engine's, on the other",
            20.0,
            sh(WORKER, "systemctl stop tandem-engine; docker image prune --all --force"),
        ),
        "the next deploy converges",
        ("replicas",),
        "deploy",
        takes_minutes=True,
    ),
    Fault(
        "rolling re-provision",
        rolled,
        "every engine anew, no request lost",
        ("replicas",),
        "nothing",
        takes_minutes=True,
    ),
    Fault(
        "corrupt shard under a running engine",
        sh(WORKER, f"printf X | dd of={SHARD} bs=1 seek=5000 conv=notrunc"),
        "it serves on; the deploy fetches the shard",
        EITHER,
        "nothing",
        told="has been changed since it was proven",
    ),
    Fault(
        "corrupt shard, then a restart",
        all_of(sh(WORKER, f"printf Y | dd of={SHARD} bs=1 seek=6000 conv=notrunc"), sh(WORKER, KILL)),
        "it does not load what was changed; the deploy fetches the shard",
        EITHER,
        "deploy",
        held_s=15,
        told="has been changed since it was proven",
    ),
    Fault(
        "image deleted, then a restart",
        sh(WORKER, f"{UNNAME}; {KILL}"),
        "it waits and says so; the deploy brings the image",
        EITHER,
        "deploy",
        held_s=10,
    ),
    Fault(
        "unit file edited by hand",
        sh(WORKER, "echo '# by hand' >>/etc/systemd/system/tandem-engine.service"),
        "the deploy writes it anew, nothing restarts",
        EITHER,
        "nothing",
    ),
    Fault(
        "a container started by hand under our name",
        sh(HEAD, f"{STOP}; {BY_HAND}; {START}"),
        "removed at the start",
        EITHER,
    ),
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
        all_of(sh(WORKER, f"rm $(readlink -f {SHARD})"), deploy_on_a_full_disk(WORKER, HUB, "free: make room")),
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
        "Ray's token changed on one node",
        sh(WORKER, f"echo another >/etc/tandem/engine/secrets/ray.token; {KILL}"),
        "the ranks do not meet; the deploy sets it right",
        ("cluster/ray",),
        "deploy",
        held_s=20,
    ),
    Fault(
        "the proxy's key lost",
        sh(HEAD, "rm /etc/tandem/proxy/secrets/master.key"),
        "the deploy makes another one",
        ("replicas", "solo"),
        "deploy",
        on_head=True,
    ),
    Fault(
        "a model that can't load",
        never_loads,
        "six starts, then it stays down, its memory is free, and status says why",
        ("solo",),
        "deploy",
        takes_minutes=True,
    ),
    Fault(
        "a new plan that does not come up, rollback=auto",
        rolled_back,
        "the deploy goes back by itself, and ends as a failure",
        ("solo", "replicas"),
        "nothing",
        takes_minutes=True,
    ),
]


def fast(scene: str) -> list[Fault]:
    """The faults that the tests do to a scene."""
    return [fault for fault in FAULTS if scene in fault.fast]


#: What can't be done to a lab, and why.
NOT_HERE = {
    "a disk that fills up in the middle of a copy": "not under load: tests/node/test_faults.py does it to a copy alone",
    "a jump of the clock": "the nodes have this machine's clock; every wait in Tandem's programs is on a monotonic one",
    "a hang of the GPU, an error of RDMA": "there is neither",
    "a freeze of unified memory": "there is none; the guard is tried with this machine's own memory",
}
