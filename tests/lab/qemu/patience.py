"""Limits of time for machines that are emulated, ten to twenty times as slow as this one: one missed says nothing."""

from __future__ import annotations

from typing import Any

import paramiko

TIMES = 10
_OF_CANARY = """import sys

sys.path.insert(0, "{folder}")
import inner
import proxy

for module in (inner, proxy):
    vars(module).update({{name: {times} * each for name, each in vars(module).items() if name.endswith("_S")}})
"""


def of_canary(folder: str) -> str:
    """Python that makes the canary's times over LiteLLM and HAProxy longer, where it is the program of `folder`."""
    return _OF_CANARY.format(folder=folder, times=TIMES)


def take() -> None:
    """From now on the deploys of this process have it: for a login, the rails' proof, and LiteLLM's start."""
    # Not at the top: they are for a run of pyinfra alone.
    from operations.runner import reach, readiness, successors
    from operations.steps import fabric

    reach.ENTER_S *= TIMES
    readiness.PROXY_S *= TIMES
    successors.START_S *= TIMES
    fabric.PATIENCE_S *= TIMES
    _be_patient_with_logins()


def _be_patient_with_logins() -> None:
    """Paramiko's own limits would end one else: for a banner, the keys, and the word about ours."""
    begin = paramiko.Transport.__init__

    def patient(its: paramiko.Transport, *args: Any, **named: Any) -> None:
        begin(its, *args, **named)
        for limit in ("banner_timeout", "handshake_timeout", "auth_timeout"):
            setattr(its, limit, TIMES * getattr(its, limit))

    paramiko.Transport.__init__ = patient  # type: ignore[assignment,method-assign]
