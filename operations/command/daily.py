"""What an owner types on an ordinary day."""

from __future__ import annotations

from typing import Annotated

import typer

from operations.command import going, running
from operations.command.at import At
from operations.command.groups import DAILY, AsJson, Model, Yes, verb
from operations.plan.config.refusal import Finding, Refusal


@verb(DAILY, "tandem plan", "tandem plan topology=replicas", knobs=True)
def plan(at: At) -> int:
    """Show what a deploy would change, file by file; nothing is changed."""
    return running.deploy(at, "--dry", "--diff")


@verb(DAILY, "tandem apply", "tandem apply topology=solo recipe=qwen3.6-35b-a3b-nvfp4", knobs=True)
def apply(at: At) -> int:
    """Make the nodes what your folder says. Again: nothing changes."""
    return running.deploy(at, "-y")


@verb(DAILY, "tandem upgrade", "tandem upgrade --yes", knobs=True)
def upgrade(at: At, yes: Yes = False) -> int:
    """After a newer Tandem has come: say what it would change, ask, then do it."""
    return going.upgrade(at, is_asking=not yes)


@verb(DAILY, "tandem rollback", knobs=True)
def rollback(at: At) -> int:
    """Back to the plan that served before the declared one."""
    return running.deploy(at, "-y", "--data", "_rollback=1")


@verb(DAILY, "tandem status", "tandem status --json")
def status(at: At, model: Model = "", as_json: AsJson = False) -> int:
    """What runs on each node, since when, and whether it answers."""
    return running.query(at, "status", model, json=as_json)


@verb(DAILY, "tandem starts", "tandem starts --model coder", "tandem starts --json")
def starts(at: At, model: Model = "", as_json: AsJson = False) -> int:
    """How long the last starts of the engines took, phase by phase; and how far one is that is under way."""
    return running.query(at, "starts", model, json=as_json)


@verb(DAILY, "tandem logs", "tandem logs coder --follow", "tandem logs --lines 500 > engine.log")
def logs(
    at: At,
    model: Annotated[str, typer.Argument(help="Of several models the one whose engine is meant.")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of each node's last lines.")] = 100,
) -> int:
    """The engine's words on every node."""
    return running.wait(running.verb(at, "logs", model, follow=follow, lines=str(lines)))


@verb(DAILY, "tandem endpoint", 'eval "$(tandem endpoint)"', "tandem endpoint --json")
def endpoint(at: At, as_json: AsJson = False) -> int:
    """The URL and your own key, as variables of a shell."""
    return running.query(at, "endpoint", json=as_json)


@verb(DAILY, "tandem chat", 'tandem chat --say "Why is the sky blue?"')
def chat(
    at: At,
    model: Annotated[str, typer.Option("--model", help="The name that clients ask for.")] = "",
    say: Annotated[str, typer.Option("--say", help="Ask this one thing, and end.")] = "",
) -> int:
    """Talk to the model here. From anywhere that reaches the nodes by ssh, whoever else may reach the proxy."""
    return going.chat(at, model, say)


@verb(DAILY, "tandem open", name="open")
def open_page(at: At) -> int:
    """The page that says how the nodes are: its address, and a browser where there is one."""
    return going.open_page(at)


@verb(DAILY, "tandem down", "tandem down --model coder", "tandem down --all")
def down(
    at: At,
    model: Model = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Images, models, secrets and the fabric's settings too: listed and asked.")
    ] = False,
    yes: Yes = False,
) -> int:
    """Stop and remove what Tandem started; images and models stay."""
    if everything and model:
        problem = "and --model are not for one run: images, secrets and the fabric are of all models"
        raise Refusal(Finding("--all", problem, f"`tandem down --model {model}` stops that one"))
    if everything:
        return going.remove_all(at, is_asking=not yes)
    return running.change(at, "down", model)


@verb(DAILY, "tandem prune")
def prune(at: At) -> int:
    """Remove images of Tandem's that no unit needs any more; `tandem models prune` has models and caches."""
    return running.query(at, "prune")
