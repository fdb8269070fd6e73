"""What the asking verbs print, on standard output; pyinfra's own words go to standard error."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Any

import gevent
from pyinfra.api.exceptions import DeployError
from pyinfra.api.host import Host
from rich.console import Console
from rich.table import Table

from operations import tether
from operations.remote import ask

COLUMNS = ("node", "unit", "state", "since", "recipe", "image", "model", "health")


def everywhere(hosts: list[Host], program: str, **arguments: Any) -> dict[str, dict[str, Any]]:
    """Ask all nodes the same at once; answers by node, in the inventory's order."""

    def one(host: Host) -> dict[str, Any]:
        tether.quicken(host)
        return ask(host, program, **arguments)

    tasks = {host.name: gevent.spawn(one, host) for host in hosts}
    return {name: task.get() for name, task in tasks.items()}


def say(lines: Sequence[str]) -> None:
    """Lines of text, as they are."""
    for line in lines:
        print(line)


def status_table(answers: dict[str, dict[str, Any]]) -> None:
    """One row for each unit of each node; under it, why something does not serve."""
    table = Table(*COLUMNS, box=None, pad_edge=False)
    for name, answer in answers.items():
        for row in answer["rows"] or [{"unit": "-", "state": "nothing of Tandem's runs here"}]:
            table.add_row(name, *(str(row.get(column, "")) for column in COLUMNS[1:]))
    # A pipe has no width: nothing is cut there.
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    for name, answer in answers.items():
        for row in answer["rows"]:
            if row.get("why"):
                print(f"\n{name} {row['unit']}: {row['why']}")


def audit_table(answers: dict[str, dict[str, Any]]) -> None:
    """Modules by kind, the largest first, and what of it all is not quantised; raises DeployError without a model."""
    answer = next(iter(answers.values()))
    if "error" in answer:
        raise DeployError(answer["error"])
    table = Table("module", "count", "method", "MB", box=None, pad_edge=False)
    shown = [row for row in answer["rows"] if row["bytes"] >= answer["total"] / 1000]
    for row in shown:
        table.add_row(row["module"], str(row["count"]), row["method"], f"{row['bytes'] / 1e6:,.1f}")
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    rest, hidden = answer["rows"][len(shown) :], answer["total"] - answer["quantised"]
    print(f"\nand {sum(row['count'] for row in rest)} smaller ones, {sum(row['bytes'] for row in rest) / 1e6:,.1f} MB")
    print(f"{hidden / 1e6:,.1f} of {answer['total'] / 1e6:,.1f} MB are not quantised")


def endpoint_lines(answers: dict[str, dict[str, Any]]) -> None:
    """Shell assignments; raises DeployError where there is no proxy."""
    answer = next(iter(answers.values()))
    if not answer.get("url"):
        raise DeployError("no proxy runs on the head: `make apply` deploys one")
    for variable, key in (("OPENAI_BASE_URL", "url"), ("OPENAI_API_KEY", "key"), ("OPENAI_MODEL", "model")):
        print(f"{variable}={shlex.quote(answer[key])}")
