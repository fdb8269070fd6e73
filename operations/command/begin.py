"""`tandem init`, `tandem recipes` and `tandem fit`: what an owner types before there is anything to deploy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from operations.command.groups import CHOOSE, DAILY, AsJson, verb


@verb(
    DAILY,
    "tandem init",
    "tandem init ~/sparks --nodes spark-1.local,spark-2.local --user me --for chat --reach home --people 4",
)
def init(
    folder: Annotated[Path, typer.Argument(help="Your folder; it is made where it is not there.")] = Path("."),
    nodes: Annotated[str, typer.Option(help="Names or addresses of the Sparks, the head first, commas between.")] = "",
    user: Annotated[str, typer.Option(help="The login on the Sparks, where it is not yours here.")] = "",
    model: Annotated[str, typer.Option(help="A recipe's name (`tandem recipes`), or the path of one.")] = "",
    purpose: Annotated[
        str, typer.Option("--for", help="In place of --model, what for: chat, coding, one-spark, most-users.")
    ] = "",
    reach: Annotated[
        str,
        typer.Option(
            help="Who may reach it: this (the Sparks alone; the knob proxy_bind is loopback), home (management), all."
        ),
    ] = "",
    people: Annotated[int | None, typer.Option(help="How many people use it.", min=1)] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; what is not given has its default.")] = False,
) -> int:
    """Find your Sparks, ask three questions, and write your folder. Again: change what is there."""
    from operations.verbs.init import init as begin

    return begin(
        folder, nodes=nodes, user=user, model=model, purpose=purpose, reach=reach, people=people, is_asking=not yes
    )


@verb(
    CHOOSE,
    "tandem recipes",
    "tandem recipes qwen3.6-35b-a3b-nvfp4",
    "tandem recipes --dir ~/recipes",
    "tandem recipes add eugr",
    "tandem recipes update",
)
def recipes(
    name: Annotated[str, typer.Argument(help="Show this one alone; `add` or `update`: a registry.")] = "",
    registry: Annotated[str, typer.Argument(help="To add: URL@COMMIT, or official, community, eugr.")] = "",
    folder: Annotated[str, typer.Option("--dir", help="A folder of recipes that are not Tandem's, or @REGISTRY.")] = "",
    fetch: Annotated[str, typer.Option(help="Fetch the mods of foreign recipes first: URL@COMMIT.")] = "",
    alias: Annotated[str, typer.Option("--as", metavar="NAME", help="What to call a registry that is added.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Take an update without a question.")] = False,
) -> int:
    """The recipes that can be chosen, or one of them; registries of others' recipes."""
    from operations.verbs import fetch as fetching
    from operations.verbs import recipes as listing
    from operations.verbs import registries

    if name == "add":
        return registries.add(registry, alias)
    if name == "update":
        return registries.update(registry, yes=yes)
    if fetch and (code := fetching.main(fetch)):
        return code
    return listing.main(folder, name)


@verb(
    CHOOSE,
    "tandem fit Qwen/Qwen3.5-122B-A10B --context 131072 --users 4",
    "tandem fit unsloth/gpt-oss-120b-GGUF:Q4_K_M",
    "tandem fit Qwen/Qwen3-32B --write my-qwen.yaml",
)
def fit(
    what: Annotated[str, typer.Argument(help="ORG/NAME on the Hub (@COMMIT, :BUILD of a GGUF), a recipe, or a file.")],
    context: Annotated[int, typer.Option(help="Tokens of each user, question and answer together.", min=0)] = 0,
    users: Annotated[int, typer.Option(help="Users at once.", min=1)] = 1,
    nodes: Annotated[int, typer.Option(help="The most Sparks that are looked at.", min=1, max=8)] = 4,
    kv: Annotated[str, typer.Option(help="The KV cache's type: fp8, bf16, nvfp4, q8_0.")] = "",
    write: Annotated[str, typer.Option(metavar="FILE", help="Write a recipe, with questions where none knows.")] = "",
    as_json: AsJson = False,
) -> int:
    """Whether a model fits, before it is fetched, and how many users; writes a recipe."""
    from operations.verbs import fit as fitting

    return fitting.main(what, context, users, nodes, kv, write, as_json)
