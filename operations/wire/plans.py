"""Plans that have served, as each node keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from operations.wire import Json
from operations.wire.answers import Proven
from operations.wire.model import ImageState

if TYPE_CHECKING:
    # Python 3.10 has it not, and nothing here is looked at while a program runs.
    from typing import NotRequired


class KeptImage(TypedDict):
    """An image of a plan: its local name, and the hash of its content, or empty."""

    local: str
    content: str


class KeptService(TypedDict):
    """A unit's spec, and its files: path -> hash. The fabric has files alone."""

    spec: NotRequired[str]
    files: dict[str, str]


class Served(TypedDict):
    """/var/lib/tandem/served.json has a list of these (operations/plan/history.py makes one,
    operations/node/unit/served.py keeps it). An older Tandem has written less.

    `id`: a hash over everything; `way`: over what a rollback can bring back. `knobs` and the recipes are the models'
    own JSON, `serves` is by role, `services` by node and unit. `when`: the node's local time, to the minute.
    `answers`: by its models' names, what the gate of answers found.
    `passed_over`: newer ones that can't be read, where a way back has found it.
    """

    id: str
    way: NotRequired[str]
    knobs: Json
    recipe: Json
    recipes: NotRequired[dict[str, Json]]
    serves: NotRequired[dict[str, KeptImage]]
    services: NotRequired[dict[str, dict[str, KeptService]]]
    images: list[str]
    when: NotRequired[str]
    passed_over: NotRequired[list[str]]
    answers: NotRequired[dict[str, Proven]]


class ServedTold(TypedDict):
    """The plans, the newest last, and with `archives` the state of images by local name."""

    plans: list[Served]
    images: NotRequired[dict[str, ImageState]]
