"""Secrets on the nodes: whose they are and who may read them, put right at each deploy."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import FunctionCommand, PyinfraCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations import looking
from operations.paths import SECRETS
from operations.patience import quietly
from operations.plan.plan import Plan
from operations.remote import ask


@looking.step
def kept(plan: Plan) -> Iterator[PyinfraCommand]:
    """Files and folders with the owner and the mode that they shall have. What Tandem may not put right has been
    refused before the first change.
    """
    wrong = looking.at(host, plan)["modes"]["wrong"]
    if not wrong:
        host.noop("nobody else can read or replace them")
        return
    for problem in wrong:
        host.log(f"{problem}: put right")
    yield put_right()


def put_right() -> FunctionCommand:
    """The same without a look: before a start, behind whoever has written there as somebody else."""

    def run(_state: State, where: Host) -> bool:
        if left := ask(where, "secret.modes", folders=list(SECRETS), mend=True)["wrong"]:
            raise RuntimeError(f"{left[0]}, and can't be put right")
        return True

    return quietly(run)
