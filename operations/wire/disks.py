"""Models, and kernels that engines have compiled, on a node's disks."""

from __future__ import annotations

from typing import TypedDict


class OnDisk(TypedDict):
    """A revision in a store (operations/node/unit/disks.py). `revision` empty: files of its folder that none has, as a
    download leaves them that was broken off.

    `files`: bytes by the place on the disk (device and inode), which models that share a file have in common. `whole`:
    what its content is known by, `proven` or `structure`; empty: it is not whole, see `problems`. `brought`: Tandem has
    fetched it. `served`: seconds since 1970 when it did last, 0: nobody knows. `busy`: what uses it now, `units`: what
    lies here and names it without running.
    """

    folder: str
    revision: str
    files: dict[str, int]
    whole: str
    problems: list[str]
    brought: bool
    pinned: bool
    served: float
    busy: list[str]
    units: list[str]


class Kernels(TypedDict):
    """What engines of an image have compiled, by the tag of the image's name; `busy` and `units` as above."""

    tag: str
    bytes: int
    busy: list[str]
    units: list[str]


class Need(TypedDict):
    """A revision that a remembered plan wants: for which model or recipe (`who`), and when the plan has served, in the
    node's local time. An empty revision is any.
    """

    folder: str
    revision: str
    who: str
    when: str


class Shelf(TypedDict):
    """All of it on a node; `needs` of the plans that are remembered there, the newest last, with their images; bytes
    that are free where the store is.
    """

    models: list[OnDisk]
    kernels: list[Kernels]
    needs: list[Need]
    images: list[str]
    free: int


class Picked(TypedDict):
    """What is to be removed or marked: a `folder` of a model with its `revision`, or the `tag` of kernels; the other is
    empty.
    """

    folder: str
    revision: str
    tag: str


class Taken(TypedDict):
    """Bytes that were freed, and why something is still there (operations/node/unit/take_away.py)."""

    freed: int
    problems: list[str]
