"""Secrets on the nodes: whose they are and who may read them, put right at each deploy."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand

from operations.runner.managed_files import put_secrets_right
from operations.runner.run import Run, step


@step
def fix_permissions(run: Run) -> Iterator[PyinfraCommand]:
    """Files and folders with the owner and the mode that they shall have. What Tandem may not put right has been
    refused before the first change.
    """
    wrong = run.look(host)["modes"]["wrong"]
    if not wrong:
        host.noop("nobody else can read or replace them")
        return
    for problem in wrong:
        host.log(f"{problem}: put right")
    yield put_secrets_right()
