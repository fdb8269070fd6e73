"""What helps to choose: advice, measurements, and what came of them."""

from __future__ import annotations

import importlib.util
import sys
from typing import Annotated

import typer

from operations.command import origin, running
from operations.command.at import ROOT, At
from operations.command.groups import CHOOSE, verb
from operations.init.folder import logins_of
from operations.plan.config.refusal import Finding, Refusal


@verb(CHOOSE, 'tandem advise "8 users chat ttft=2s"', 'tandem advise "1 user coding" --recipe any --nodes 2')
def advise(
    at: At | None,
    load: Annotated[
        str, typer.Argument(help="Who asks: users, a kind of use (chat, coding agent, long documents), a target.")
    ],
    recipe: Annotated[str, typer.Option(help="A recipe's name, or `any`; else the declared one.")] = "",
    nodes: Annotated[str, typer.Option(help="How many Sparks, if not those of your folder; `2,3,4` compares.")] = "",
    run: Annotated[str, typer.Option(help="A run of `tandem bench` to take figures from.")] = "",
    detail: Annotated[bool, typer.Option("--detail", help="Say where each figure is from.")] = False,
) -> int:
    """Which topology, as a command, and why."""
    if at is None:
        print(
            "note: no folder of yours is here: two Sparks and the default recipe, unless you say others",
            file=sys.stderr,
        )
    elif not nodes:
        nodes = _of_folder(at)
    words = {"LOAD": load, "RECIPE": recipe, "NODES": nodes, "RUN": run, "DETAIL": "1" if detail else ""}
    return _bench(at, "bench.advise", words)


def _of_folder(at: At) -> str:
    """How many Sparks the owner's inventory has; empty, with a note: it is no plain list."""
    try:
        nodes = logins_of(at.inventory, at.inventory.read_text())
    except (OSError, UnicodeError, Refusal):
        nodes = ()
    if not nodes:
        print(f"note: {at.inventory.name} has no plain list of nodes: two Sparks, unless --nodes says", file=sys.stderr)
    return str(len(nodes) or "")


@verb(CHOOSE, "tandem bench", 'tandem bench --topologies "solo cluster replicas" --for 30m', knobs=True)
def bench(
    at: At,
    topologies: Annotated[str, typer.Option(help="Measure these in turn; what is declared is put back.")] = "",
    profile: Annotated[str, typer.Option(help="What is asked (docs/bench.md in the clone).")] = "",
    users: Annotated[str, typer.Option(help="Users at once: `1 4 16`.")] = "",
    seconds: Annotated[str, typer.Option("--for", help="How long to measure: `30m`.")] = "",
    slo: Annotated[str, typer.Option(help="What counts as good enough: `ttft=2s`.")] = "",
    repeats: Annotated[str, typer.Option(help="Rounds, where no time is given.")] = "",
    targets: Annotated[str, typer.Option(help="`proxy`, `engines` or both.")] = "",
    prompt: Annotated[str, typer.Option(help="Tokens of a prompt: `500 8000`.")] = "",
    answer: Annotated[str, typer.Option(help="Tokens of an answer.")] = "",
    prompts: Annotated[str, typer.Option(help="A file of your own prompts, with `--profile owner`.")] = "",
    seed: Annotated[str, typer.Option(help="What prompts are made from: the same seed, the same prompts.")] = "",
    client_from: Annotated[str, typer.Option("--from", help="Where it asks from: `controller` or `head`.")] = "",
    run: Annotated[str, typer.Option(help="The folder of a run that was broken off.")] = "",
    book: Annotated[str, typer.Option(help="With `--profile articles`: a text in place of the fetched one.")] = "",
    tokenizer: Annotated[
        str, typer.Option(help="With `--profile articles`: a folder with the model's tokenizer.")
    ] = "",
) -> int:
    """Measure what is deployed, or several topologies in turn."""
    words = {"TOPOLOGIES": topologies, "PROFILE": profile, "USERS": users, "FOR": seconds, "SLO": slo, "RUN": run}
    words |= {"REPEATS": repeats, "TARGETS": targets, "PROMPTS": prompts, "PROMPT": prompt, "ANSWER": answer}
    words |= {"SEED": seed, "FROM": client_from, "BOOK": book, "TOKENIZER": tokenizer}
    return _bench(at, "bench", words)


@verb(CHOOSE, "tandem report", "tandem report bench-runs/2026-11-26-101500-standard")
def report(
    at: At,
    run: Annotated[str, typer.Argument(help="The run's folder; the newest without it.")] = "",
    against: Annotated[str, typer.Option(help="Another run's folder, to compare with.")] = "",
    figures: Annotated[str, typer.Option(help="Which figures (docs/advise.md in the clone).")] = "",
    out: Annotated[str, typer.Option(help="The folder that it is written into.")] = "",
) -> int:
    """A run of `tandem bench` as a page, Markdown and CSV."""
    return _bench(
        at, "bench.report", {"RUN": run, "AGAINST": against, "FIGURES": figures, "OUT": out}, needs="matplotlib"
    )


def _bench(at: At | None, module: str, words: dict[str, str], needs: str = "") -> int:
    """Runs a part of `bench` in the owner's folder, which its runs are in too. Raises Refusal where a package that it
    needs is not installed.
    """
    if needs and importlib.util.find_spec(needs) is None:
        remedy = origin.install(origin.source(), with_plots=True)
        if running.in_clone():
            remedy = f"`{sys.executable} -m pip install --require-hashes -r {ROOT}/requirements-bench.lock`"
        raise Refusal(Finding("report", f"the package {needs} is not installed", remedy))
    if at:
        words |= {"INVENTORY": str(at.inventory.absolute()), "DATA": " ".join(at.data)}
    return running.wait([sys.executable, "-u", "-m", module], more=words)
