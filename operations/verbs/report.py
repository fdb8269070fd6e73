"""What the asking verbs print, on standard output; pyinfra's own words go to standard error."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import gevent
from pyinfra import host as asked_at
from pyinfra.api.exceptions import DeployError
from pyinfra.api.host import Host
from rich.console import Console
from rich.table import Table

from operations.node.unit import phases, served
from operations.node.unit import starts as starts_of
from operations.plan import history
from operations.plan.absence import SILENT, absent, told
from operations.plan.config.refusal import Refusal
from operations.runner.remote import ask_or_none
from operations.runner.run import Run
from operations.wire.model import Audit, ModelFile, Verified
from operations.wire.plans import ServedTold
from operations.wire.starts import Start, StartsTold
from operations.wire.unit import Endpoint, OldImages, Status

T = TypeVar("T")

#: Seconds for a node to read which plan has served.
RECORD_S = 10


@contextmanager
def refusals_told() -> Iterator[None]:
    """What is wrong in the inventory ends pyinfra with its own words, as DeployError."""
    try:
        yield
    except Refusal as refusal:
        raise DeployError(str(refusal)) from None


def everywhere(
    run: Run, hosts: Sequence[Host], asked: Callable[[Host], T | None], deadline_s: float | None = None
) -> dict[str, T]:
    """Ask nodes at once; answers by node, in the inventory's order. One without an answer is absent then.

    `asked`: what is asked of one (`ask_or_none`, `hand_or_none`). Raises DeployError when none of them answers.
    """

    def one(host: Host) -> T | None:
        with gevent.Timeout(deadline_s, False):
            return asked(host)
        return None

    tasks = [(host, gevent.spawn(one, host)) for host in hosts]
    answers: dict[str, T] = {}
    for host, task in tasks:
        answer = task.get()
        if answer is None:
            run.lose(host, absent(SILENT, host.name))
        else:
            answers[host.name] = answer
    if not answers:
        raise DeployError("no node can be asked: " + "; ".join(absent_lines(run)))
    return answers


def absent_lines(run: Run, answers: dict[str, Status] | None = None, topology: str = "") -> list[str]:
    """One line for each node that can't be asked, with what that means for what serves. `topology`: for a plan of that
    one instead. The answers of `tandem status` know what is deployed, and since when the others miss it.
    """
    if not run.absent:
        return []
    found = list((answers or {}).values())
    deployed = topology or next((answer["topology"] for answer in found if answer.get("topology")), "")
    # Knobs may have been given for one run: only nodes know what serves.
    deployed = deployed or _served_last(run)
    since = {name: text for answer in found for name, text in answer.get("away", {}).items()}
    head = run.head.name
    serving = [(name, answer["alone"]) for name, answer in (answers or {}).items() if answer.get("alone")]
    alone = f"{serving[0][0]} serves alone since {serving[0][1]}" if serving else ""
    return [
        told(absence, deployed, is_head=absence.name == head, since=since.get(absence.name, ""), instead=alone)
        for absence in run.absent
    ]


def _served_last(run: Run) -> str:
    """The topology of the plan that has served last, by the nodes that can be asked; empty: none knows. One that was
    away has an older record.
    """

    def one(host: Host) -> ServedTold | None:
        with gevent.Timeout(RECORD_S, False):
            found: ServedTold | None = ask_or_none(host, served.main)
            return found
        return None

    tasks = [gevent.spawn(one, host) for host in run.answering]
    plans = [told["plans"][-1] for task in tasks if (told := task.get()) and told["plans"]]
    newest = max(plans, key=lambda plan: plan.get("when", ""), default=None)
    return history.topology(newest, run.head.name) if newest else ""


def the_head(run: Run) -> list[Host]:
    """The first node of the inventory, for what it alone knows. Raises DeployError where it can't be asked."""
    head = run.head
    for absence in run.absent:
        if absence.name == head.name:
            raise DeployError(f"only the head knows: {told(absence)}")
    return [head]


def wants_json() -> bool:
    """Whether a program reads it (`--json`)."""
    return bool(asked_at.data.get("_json"))


def say_json(**answer: object) -> None:
    """One JSON object on standard output."""
    say([json.dumps(answer)])


def say(lines: Sequence[str]) -> None:
    """Lines of text, as they are; whoever has read enough (`| head`) may close the pipe."""
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def starts_table(answers: dict[str, StartsTold], absent: Sequence[str] = ()) -> None:
    """One row for each start that is kept, a column for each phase that any of them had; under it what is under way,
    and why a start did not come to serve.
    """
    starts = [(name, each) for name, answer in answers.items() for each in answer["starts"]]
    known = [phase for phase in starts_of.WORDS if any(phase in each["phases"] for _, each in starts)]
    table = Table("node", "unit", "began", "recipe", "served after", *known, "weights", box=None, pad_edge=False)
    for name, each in starts:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(each["when"]))
        took = f"ended: {each['ended']}" if each["ended"] else starts_of.lasting(phases.loading_s(each["phases"]))
        passed = (f"{each['phases'][phase]:.0f} s" if phase in each["phases"] else "" for phase in known)
        table.add_row(name, each["unit"], when, each["recipe"], took, *passed, _weights(each))
    if starts:
        Console(width=None if sys.stdout.isatty() else 240).print(table)
    else:
        print("no start is kept yet: each that comes to serve from now on is")
    for line in absent:
        print(f"\n{line}")
    for name, answer in answers.items():
        for unit, text in answer["under_way"].items():
            print(f"\n{name} {unit}: {text}")
    for name, each in starts:
        if each["ended"]:
            blame = f" (held against the loader {each['blamed']})" if each["blamed"] else ""
            print(f"\n{name} {each['unit']}: ended in {each['ended']}{blame}: {each['why']}")


def _weights(start: Start) -> str:
    """`69.5 GiB, 0.38 GiB/s, 70.1 GiB from disk, by fastsafetensors`, as far as it is known."""
    rate = phases.rate(start)
    said = [f"{start['gib']:.1f} GiB" if start["gib"] else "", f"{rate:.2f} GiB/s" if rate else ""]
    said += [f"{start['read_gib']:.1f} GiB from disk" if start["read_gib"] else ""]
    said += [f"by {start['loader']}" if start["loader"] else ""]
    return ", ".join(filter(None, said))


def verify_table(repos: Sequence[str], answers: dict[str, Verified], shown: bool = True) -> list[str]:
    """A row for each node and model, if `shown`; returns what is wrong, where a node has not all of them whole.

    Nodes are held against the first that answers: the head, unless that is away.
    """
    first, reference = next(iter(answers.items()))
    table = Table("node", "model", "files", "GB", "verdict", "seconds", box=None, pad_edge=False)
    problems = []
    for name, answer in answers.items():
        for repo, state, wanted in zip(repos, answer["models"], reference["models"], strict=True):
            said = [f"{state['path']} is not there"] if not state["present"] else list(state["problems"])
            said += [f"{file} is not {first}'s" for file in _unlike(state["files"], wanted["files"])]
            problems += [f"{name}: {problem}" for problem in said]
            how = "whole, every byte proven" if state["proven"] else "whole by structure; --deep hashes it"
            size = sum(file["size"] for file in state["files"].values()) / 1e9
            verdict = f"{len(said)} problem(s)" if said else how
            table.add_row(name, repo, str(len(state["files"])), f"{size:.2f}", verdict, f"{state['seconds']:.1f}")
    if shown:
        Console(width=None if sys.stdout.isatty() else 200).print(table)
    return problems


def _unlike(files: dict[str, ModelFile], heads: dict[str, ModelFile]) -> list[str]:
    """Names that two nodes do not have alike."""
    return sorted(name for name in {*files, *heads} if files.get(name) != heads.get(name))


def pruned_lines(answers: dict[str, OldImages]) -> list[str]:
    """What was removed from each node, and what was not."""
    lines = []
    for name, answer in answers.items():
        sizes = {image["name"]: image["mb"] for image in answer["images"]}
        lines += [f"{name}: removed {image} ({sizes[image]:,} MB)" for image in answer["removed"]]
        lines += [f"{name}: {problem}" for problem in answer["problems"]]
        lines += [] if answer["images"] else [f"{name}: every image of Tandem's is needed"]
    return lines


def audit_table(answers: dict[str, Audit]) -> None:
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


#: Where `tandem endpoint` puts the certificate of our authority.
AUTHORITY = Path("tandem-ca.crt")


def endpoint_lines(answers: dict[str, Endpoint]) -> None:
    """Shell assignments of the virtual address or the first node that has a proxy, and a comment for each other one;
    raises DeployError where there is none.
    """
    found = {name: answer for name, answer in answers.items() if answer.get("url")}
    if not found:
        raise DeployError("no proxy runs on a node that answers: `tandem apply` deploys them")
    answer = next(iter(found.values())).copy()
    also = {name: other["url"] for name, other in found.items() if other["url"] != answer["url"]}
    if address := answer.get("address"):
        also = {name: other["url"] for name, other in found.items()}
        answer["url"] = address
    lines = [f"# {name} alone: {url}" for name, url in also.items()]
    if page := answer.get("page"):
        lines.append(f"# how the nodes are, in a browser (the key below is the password): {page}")
    told = {"OPENAI_BASE_URL": answer["url"], "OPENAI_API_KEY": answer["key"], "OPENAI_MODEL": answer["model"]}
    lines += [f"{variable}={shlex.quote(value)}" for variable, value in told.items()]
    if authority := answer.get("authority"):
        AUTHORITY.write_text(authority)
        lines += [
            "# clients trust the proxies by this file: OpenAI's package reads the variable once it is exported",
            f"SSL_CERT_FILE={shlex.quote(str(AUTHORITY.absolute()))}",
        ]
    say(lines)
