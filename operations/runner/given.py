"""What was given for one run, and what the inventory names: checked before the first node is asked."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import NoReturn

from pyinfra import logger
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.plan.config.knob_fields import SET
from operations.plan.config.knobs import CONNECTOR_PREFIXES, Knobs, choices, read_knobs
from operations.plan.config.refusal import Finding, Refusal, as_table
from operations.plan.declared import check_nodes, of_models
from operations.plan.recipes.formats import stems
from operations.plan.wanted import wanted

#: The exit code of what was not understood.
NOT_UNDERSTOOD = 2
#: ssh's own.
SSH_PORT = 22
_PAIR = re.compile(r"[^\s=]+=(?!\s)", re.DOTALL)
#: Verbs that help where the declared knobs are wrong: for these only what was given for the run has to be right.
_WHATEVER_IS_DECLARED = (
    *("status.py", "endpoint.py", "way.py", "down.py", "logs.py", "keys.py", "key.py", "key_revoke.py"),
)


def check_words(argv: Sequence[str]) -> None:
    """Each `--data` is `knob=value`, or the run ends here: pyinfra would end with a traceback."""
    if findings := list(_no_pairs(given(argv))):
        refuse(Refusal(*findings))


def check_knobs(state: State) -> None:
    """Names of nodes, and knobs: those that are given for this run, and for a deploy those that are declared too."""
    hosts = list(state.inventory)
    findings = [each for host in hosts for each in _name(host.name)] + list(_twice(hosts))
    try:
        if findings:
            raise Refusal(*findings)
        override = {key: value for key, value in state.inventory.override_data.items() if not _is_not_a_knob(key)}
        if any(PurePath(word).name in _WHATEVER_IS_DECLARED for word in sys.argv):
            read_knobs(of_models(override))
        elif hosts and not hosts[0].data.get("_rollback"):
            check_nodes(wanted(dict(hosts[0].data.dict())), [host.name for host in hosts])
    except Refusal as refusal:
        refuse(refusal)


def given(argv: Sequence[str]) -> list[str]:
    """What stands behind each `--data`."""
    words = [value for word, value in pairwise(argv) if word == "--data"]
    return words + [word.removeprefix("--data=") for word in argv if word.startswith("--data=")]


def _no_pairs(words: Sequence[str]) -> Iterator[Finding]:
    if all(_PAIR.match(word) or (word.endswith("=") and word[:-1]) for word in words):
        return
    joined = re.sub(r"\s*=\s*", "=", " ".join(words))
    is_said = "=" in joined and not joined.startswith("=")
    remedy = f"write {joined}" if is_said else "write knob=value, without spaces"
    for word in words:
        if not _PAIR.match(word):
            yield Finding("knob", f"`{word}` is no knob=value", _of_value(word) or remedy)
            return


def _of_value(word: str) -> str:
    """The knobs that can be the word, those alone that an owner edits first where one is among them; empty: none."""
    values = {name: stems() if name == "recipe" else choices(name) for name in Knobs.model_fields}
    pairs = {name: f"`{name}={word}`" for name, known in values.items() if word in known}
    pairs = {name: pair for name, pair in pairs.items() if name in SET} or pairs
    return f"did you mean {', or '.join(pairs.values())}?" if pairs else ""


def _name(name: str) -> Iterator[Finding]:
    user, at, address = name.partition("@")
    if at and user and not name.startswith("@"):
        yield Finding("inventory", f"`{name}` is no name of a node", f'write ("{address}", {{"ssh_user": "{user}"}})')


def _twice(hosts: Sequence[Host]) -> Iterator[Finding]:
    """Nodes that are one: pyinfra keeps the last of those with the same name, and a machine would be asked as two."""
    seen: dict[tuple[str, str], str] = {}
    once = "name each Spark once, the head first"
    for host in hosts:
        # pyinfra tells groups of a connector's nodes twice itself.
        if host.name.startswith("@"):
            continue
        # A group of the inventory is told once for each line of it that has the name.
        if len(host.groups) > len(set(host.groups)):
            yield Finding("inventory", f"`{host.name}` is there twice", once)
        at = str(host.data.get("ssh_hostname") or host.name).lower(), str(host.data.get("ssh_port") or SSH_PORT)
        if at in seen:
            yield Finding("inventory", f"`{seen[at]}` and `{host.name}` have one address, {at[0]}", once)
        seen[at] = host.name


def _is_not_a_knob(key: str) -> bool:
    return key.startswith(CONNECTOR_PREFIXES)


def refuse(refusal: Refusal) -> NoReturn:
    """Ends the run with one line for each fault. For another exception pyinfra would print a traceback."""
    logger.error(f"nothing was changed; this has to be put right first:{as_table(refusal.findings)}")
    raise SystemExit(NOT_UNDERSTOOD)
