"""Models on the nodes' disks: what lies there, what is fetched, and what goes."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from operations.command import going, running
from operations.command.at import At
from operations.command.groups import DAILY, AsJson, Yes, verb, verbs_of

Names = Annotated[
    list[str], typer.Argument(help="ORG/NAME (@COMMIT), a recipe's or a model's name, or a tag of compiled kernels.")
]


@verbs_of(DAILY, "tandem models", "tandem models --json")
def models(at: At, as_json: AsJson = False) -> int:
    """What lies on each node's disks: models, and compiled kernels; who needs them, and what may go."""
    return running.query(at, "models", json=as_json)


@verb(DAILY, "tandem models pull qwen3.6-35b-a3b-nvfp4", "tandem models pull Qwen/Qwen3-32B", knobs=True, of=models)
def pull(
    at: At,
    what: Annotated[str, typer.Argument(help="A recipe, a model of yours, or ORG/NAME on the Hub (@COMMIT, :BUILD).")],
) -> int:
    """Fetch a model onto the head, and onto the nodes that a deploy would have it on. What serves goes on."""
    from operations.verbs import pull_subject

    asked = pull_subject.main(what)
    code = running.wait(running.verb(at, "pull", ""), more={"PULLED": json.dumps(asked)})
    if not code:
        print(f"{what} is there; `tandem models` says where")
    return code


@verb(DAILY, "tandem models rm Qwen/Qwen3-32B", "tandem models rm Qwen/Qwen3-32B@9216db57 --yes", of=models)
def rm(at: At, names: Names, yes: Yes = False) -> int:
    """Remove models by their names from all nodes: listed with GB, and asked. What serves, or is pinned, stays."""
    return _remove(at, "rm", names, is_asking=not yes)


@verb(DAILY, "tandem models pin Qwen/Qwen3-32B", of=models)
def pin(at: At, names: Names) -> int:
    """Have models stay, whatever `prune` would remove."""
    return running.query(at, "models", more=_words(names), do="pin")


@verb(DAILY, "tandem models unpin Qwen/Qwen3-32B", of=models)
def unpin(at: At, names: Names) -> int:
    """Let go what was pinned."""
    return running.query(at, "models", more=_words(names), do="unpin")


@verb(DAILY, "tandem models prune", "tandem models prune --yes", of=models)
def prune(at: At, yes: Yes = False) -> int:
    """Remove what Tandem has fetched and no plan of the last five needs: listed with GB, and asked."""
    return _remove(at, "prune", [], is_asking=not yes)


def _remove(at: At, verb: str, names: list[str], *, is_asking: bool) -> int:
    code, text = running.answer(at, "models", more=_words(names), do=verb)
    if code:
        return code
    told = json.loads(text)
    for line in told["absent"]:
        print(f"note: {line}", file=sys.stderr)
    if not told["things"]:
        print("nothing may go: `tandem models --json` says of each why it stays")
        return 0
    going.show(told["things"])
    print(f"together {going.gigabytes(told['frees'])} would be free")
    if is_asking and not going.agrees(f"models {verb}"):
        return 0
    shown = {name: [each["key"] for each in things] for name, things in told["things"].items()}
    more = {**_words(names), "SHOWN": json.dumps(shown)}
    return running.query(at, "models", more=more, do=verb, remove=True)


def _words(names: list[str]) -> dict[str, str]:
    """Names stay what they are in the environment."""
    return {"WORDS": json.dumps(names)}
