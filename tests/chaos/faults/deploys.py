"""Deploys that are broken off, renew everything, or go back."""

from __future__ import annotations

from tests.chaos.acts import all_of, sh
from tests.chaos.deploying import (
    deploy_killed_at,
    management_cut_in_a_deploy,
    rolled,
    rolled_back,
    switch_killed_at,
)
from tests.chaos.fault import BALANCED, EITHER, KILL, Fault
from tests.lab.cluster import HEAD, WORKER

#: Where a deploy is killed, and how many seconds into it.
PHASES = {
    "Fabric | addresses": 0.2,
    "Image | the engine's, on the head": 0.2,
    "Model | on the head": 0.2,
    "Engine | files": 0.3,
    "Upkeep | files": 0.3,
    "Engine | stop what is not the plan's": 0.5,
    "Engine | start": 1.0,
    "Engine | a token from each": 5.0,
    "Proxy | run": 0.5,
}
#: Those at which a cluster differs: its engine has to be stopped on all nodes, and to meet.
MEETING = ("Engine | files", "Engine | stop what is not the plan's", "Engine | start", "Engine | a token from each")

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
        "switch to replicas killed while the worker's engine loads, then SIGKILL engine container, head",
        all_of(switch_killed_at("Engine | another one serves", 3.0, "replicas"), sh(HEAD, KILL)),
        "serves again by itself, as the solo that it was",
        ("solo",),
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
