"""What the programs print that live on a tether, a line of JSON at a time."""

from __future__ import annotations

from operations.wire.model import Copied, Ready
from operations.wire.unit import LockLine


class Line(Copied, LockLine, Ready, total=False):
    """A line of any of them; who has started the program knows which keys are in it. Empty: it has ended."""
