"""A node that can't be asked: why, what that means for the service, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from operations.plan.config.kind import Kind
from operations.plan.config.refusal import coded

_SWITCH_ON = "switch it on, or look at its network cable"
REFUSED = Kind(
    "reach-connection-refused",
    "does not answer (connection refused)",
    remedy="it is on, without an ssh server: wait until it has booted, or `sudo systemctl enable --now ssh` there",
)
NO_ROUTE = Kind("reach-no-route", "does not answer (no route to host)", remedy=_SWITCH_ON)
#: Apple's TN3179: macOS 15 and newer keep a program that is not allowed the local network from every host on it.
LOCAL_NETWORK = (
    "in a terminal program that is not Apple's, allow it the local network (System Settings, Privacy & Security, Local "
    "Network)"
)
NO_ROUTE_FROM_MACOS = Kind(
    "reach-no-route-from-macos",
    "does not answer (no route to host)",
    "it is off, or macOS keeps this terminal program from the local network",
    f"{LOCAL_NETWORK}; else {_SWITCH_ON}",
)
NO_NETWORK = Kind(
    "reach-no-network", "does not answer (network unreachable)", remedy="look at this machine's own network"
)
TIMED_OUT = Kind("reach-timed-out", "does not answer (timed out)", remedy=_SWITCH_ON)
UNKNOWN_NAME = Kind(
    "reach-unknown-name",
    "does not answer (the name {address} is not known)",
    remedy="switch it on; if it is on, write its address into the inventory instead of the name",
)
OTHER_HOST_KEY = Kind(
    "reach-other-host-key",
    "shows another host key than the known one",
    remedy="if it was installed anew, {remove} and try again; if not, another machine answers in its name",
)
LOGIN_REFUSED = Kind(
    "reach-login-refused",
    "refuses the login {login}",
    remedy="ssh-copy-id {login} (ssh-add, where the key has a passphrase)",
)
NO_KEY = Kind(
    "reach-no-key",
    "refuses the login {login}",
    remedy="here is no key to show: ssh-keygen, then ssh-copy-id {login}",
)
UNKNOWN_HOST_KEY = Kind(
    "reach-unknown-host-key",
    "has a host key that is not known here",
    "a new Spark is always unknown; compare the fingerprint on its screen",
    "ssh-keyscan -p {port} {address} >> {file}",
)
MUTE = Kind(
    "reach-mute",
    "takes the connection and then says nothing",
    remedy="try again in a minute: it boots, loads a model, or waits for a touch of your key; if it stays so, it has "
    "no memory left: look at its screen",
)
NO_LOGIN = Kind("reach-no-login", "can't be logged in to ({cause})", remedy="ssh {login} must work")
#: A node that takes the login can't be asked without python3, and sudo without a password.
_BY_HAND = "`sudo -n python3 --version` must work there; if it does, the node hangs"
SILENT = Kind("reach-silent", "lets us in and does not say how it is", remedy=_BY_HAND)
QUESTION_FAILED = Kind("reach-question-failed", "lets us in and fails at a question: {cause}", remedy=_BY_HAND)
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
    """A node without an answer. `why` follows its name; `remedy` is what to do; `code` is empty where it was left out.

    `dark`: nothing comes from it, so it serves nothing either. One that refuses the login may well serve.
    """

    name: str
    why: str
    remedy: str
    dark: bool = False
    code: str = ""


def absent(kind: Kind, name: str, /, *, dark: bool = False, **data: object) -> Absence:
    """A node without an answer, of a kind. `data`: what the kind's texts name."""
    why, remedy, code = kind.said(**data)
    return Absence(name, why, remedy, dark, code)


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
    line = f"{first}: {what}. To do: {absence.remedy}" if what else f"{first}: {absence.remedy}"
    return coded(line, absence.code)
