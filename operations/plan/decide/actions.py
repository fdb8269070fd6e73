"""What may be done about a unit of a node. Each is a value; `operations/runner/carrying_out.py` carries it out."""

from __future__ import annotations

from dataclasses import dataclass, field

from operations.plan.cluster.served_model import ServedModel
from operations.plan.services.service import Program, Service


@dataclass(frozen=True)
class Action:
    """One thing to do on a node."""


#: What a decision comes to, in order.
Actions = tuple[Action, ...]


@dataclass(frozen=True)
class Nothing(Action):
    """Say why nothing is done."""

    why: str


@dataclass(frozen=True)
class RemoveContainer(Action):
    """Remove a container that has no unit."""

    name: str


@dataclass(frozen=True)
class EndAlone(Action):
    """No node serves in the place of a cluster any more."""

    since: str


@dataclass(frozen=True)
class ServiceStops(Action):
    """From here on nobody serves a model: the time without service begins, unless it has already."""


@dataclass(frozen=True)
class PlaceFiles(Action):
    """Write those of a unit's files that differ, and remove what is none of them: these `paths`."""

    unit: str
    paths: tuple[str, ...]
    service: Program = field(repr=False)


@dataclass(frozen=True)
class Stop(Action):
    """Stop a unit, and wait until it has ended."""

    unit: str


@dataclass(frozen=True)
class Start(Action):
    """Start a unit now and at each boot."""

    unit: str


@dataclass(frozen=True)
class LeaveToDemand(Action):
    """A boot starts a unit no more: a program does when somebody asks for its model. What runs goes on."""

    unit: str


@dataclass(frozen=True)
class Remove(Action):
    """Take away a unit: process, container and files."""

    unit: str


@dataclass(frozen=True)
class EngineStarted(Action):
    """An engine has been started, and has to prove itself."""

    unit: str
    model: ServedModel = field(repr=False)


@dataclass(frozen=True)
class LoadingBegins(Action):
    """The time of an engine's own start begins."""


@dataclass(frozen=True)
class LetCooldownsEnd(Action):
    """Wait until the proxy has taken every other engine back."""


@dataclass(frozen=True)
class AwaitStandIn(Action):
    """Wait for the engines that are the plan's, on the nodes `renewed`. Where there is none, one of `others` has to
    serve. The deploy ends where nobody does.
    """

    unit: str
    renewed: tuple[str, ...]
    others: tuple[str, ...]
    model: ServedModel = field(repr=False)


@dataclass(frozen=True)
class AwaitEngine(Action):
    """Wait for a token of the engine that answers on this node. The deploy ends where none comes."""

    unit: str
    model: ServedModel = field(repr=False)


@dataclass(frozen=True)
class AllAnswer(Action):
    """The time without service ends here."""


@dataclass(frozen=True)
class ForgetRestarts(Action):
    """Count the starts of a unit from here."""

    unit: str


@dataclass(frozen=True)
class TakeUp(Action):
    """Wait until a LiteLLM has taken up the engines of its file by itself."""

    unit: str
    service: Service = field(repr=False)


@dataclass(frozen=True)
class Drain(Action):
    """Let what is under way in a LiteLLM end. `others`: those of which one has to take what comes; `pulses`: the URLs
    at which each LiteLLM says that it runs.
    """

    unit: str
    others: tuple[str, ...]
    pulses: dict[str, list[str]] = field(repr=False)


@dataclass(frozen=True)
class TakeBack(Action):
    """Send requests to a LiteLLM again that a deploy which was broken off has drained."""

    unit: str


@dataclass(frozen=True)
class FixSecrets(Action):
    """Give secrets the owner and the mode that they shall have."""


@dataclass(frozen=True)
class AwaitSuccessor(Action):
    """Wait until one of these LiteLLM takes requests, before the HAProxy that serves is stopped."""

    units: tuple[str, ...]
    services: tuple[Service, ...] = field(repr=False)


@dataclass(frozen=True)
class Reload(Action):
    """Have a unit read its configuration again."""

    unit: str


@dataclass(frozen=True)
class TellAddresses(Action):
    """Tell a node where the others are in the office, by their names."""

    known: dict[str, list[str]]


def place(service: Program, paths: tuple[str, ...]) -> tuple[Action, ...]:
    """The files of a unit, where some are out of place."""
    return (PlaceFiles(service.unit, paths, service),) if paths else ()
