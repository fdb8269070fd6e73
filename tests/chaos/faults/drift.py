"""Files, images, containers and secrets that are not as they were left."""

from __future__ import annotations

from tests.chaos.acts import all_of, sh
from tests.chaos.fault import EITHER, KILL, SHARD, START, STOP, Fault
from tests.lab.cluster import HEAD, WORKER

UNNAME = "docker rmi --force $(docker inspect --format '{{.Config.Image}}' tandem-engine)"
BY_HAND = (
    "docker run --detach --network none --name tandem-engine --entrypoint sleep "
    "$(docker images --quiet tandem/engine | head -n 1) 600"
)

DRIFT = [
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
]
