"""What engines have compiled on a node: for what, and of which files it consists."""

from __future__ import annotations

from typing import TypedDict

#: What is said of a file that a disk has changed, behind its name.
CHANGED = "is not what it was when a start with it had served"


class Made(TypedDict):
    """For what it was compiled, beside the plan: `content` of the image, and the `processor`
    (operations/node/kernels/compiled.py).
    """

    content: str
    processor: str


class KeptFile(TypedDict):
    """A file: bytes, when it was written (ns since 1970), its mode, and the sha256 of its content."""

    size: int
    written: int
    mode: int
    sha256: str


class Offered(TypedDict):
    """What a node gives of its kernels, file by file."""

    made: Made
    files: dict[str, KeptFile]


class Kept(TypedDict):
    """Kernels of one plan on a node; `proven`: a start with them has served, and its files are listed."""

    made: Made
    proven: bool


class Kernels(TypedDict):
    """All of them on a node, by their places (TAG/KEY); `gpu` and `cpu`: its processors, empty: not known."""

    gpu: str
    cpu: str
    kept: dict[str, Kept]
