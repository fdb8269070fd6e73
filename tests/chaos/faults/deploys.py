"""Deploys that are broken off, renew everything, or go back."""

from __future__ import annotations

from tests.chaos.acts import sh
from tests.chaos.deploying import deploy_killed_at, management_cut_in_a_deploy, rolled, rolled_back
from tests.chaos.fault import BALANCED, EITHER, Fault
from tests.lab.cluster import WORKER

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

DEPLOYS = [
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
        ("replicas", *BALANCED),
        "nothing",
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
