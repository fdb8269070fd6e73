"""A node that can't be asked: why, what that means for the service, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

#: Why a node that takes the login can't be asked, and what it needs for that: python3, and sudo without a password.
SILENT = "lets us in and does not say how it is"
ASK_BY_HAND = "`sudo -n python3 --version` must work there; if it does, the node hangs"
#: By topology, and whether it is the head that is away.
_MEANING = {
    ("solo", False): "the service needs nothing of it",
    ("solo", True): "nothing answers, engine and proxy are there",
    ("replicas", False): "its engine is missing, the others serve",
    ("replicas", True): "its engine is missing, the others serve, and new keys wait for it",
    ("cluster", False): "no rank can serve without it, the others wait for it and meet again when it is back",
    ("cluster", True): "no rank can serve without it, the others wait for it and meet again when it is back",
}


@dataclass(frozen=True)
class Absence:
    """A node without an answer. `why` follows its name; `remedy` is what to do.

    `dark`: nothing comes from it, so it serves nothing either. One that refuses the login may well serve.
    """

    name: str
    why: str
    remedy: str
    dark: bool = False


def meaning(topology: str, is_head: bool) -> str:
    """What the service does without a node; empty where the topology is not known."""
    return _MEANING.get((topology, is_head), "")


def told(absence: Absence, topology: str = "", is_head: bool = False, since: str = "", instead: str = "") -> str:
    """One line: the node, why, since when if that is known, what the service does meanwhile, what to do. `instead`:
    what it does for certain, whatever it would do by its topology.
    """
    what = instead or meaning(topology, is_head)
    if what and not instead and not absence.dark and topology != "solo":
        what = f"if it is down, {what}"
    first = f"{absence.name} {absence.why}" + (f", away since {since}" if since else "")
    return f"{first}: {what}. To do: {absence.remedy}" if what else f"{first}: {absence.remedy}"
