"""`tandem fit WHAT`: whether a model fits, by what the Hub says of it, before it is fetched. No node is asked."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from operations.plan.config.knobs import read_knobs
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.config.spark import FLOOR_GIB, MOST_SHARE, SPARK_GIB
from operations.plan.cost import GB
from operations.plan.engines import ENGINES
from operations.plan.fit import written
from operations.plan.fit.room import CONTEXTS, FitRequest, Model, Room, changes, rooms
from operations.plan.fit.shape import BYTES, Shape
from operations.plan.recipes.formats import load_file
from operations.plan.recipes.lint.room import BESIDE_GIB
from operations.plan.recipes.lint.subject import parse
from operations.plan.recipes.recipe import Recipe
from operations.plan.services.demand import demand, free_gib
from operations.plan.wanted import group_data
from operations.verbs.fit_subject import Subject, path_of, subject
from operations.verbs.hub import Hub
from operations.verbs.recipe_table import shipped

#: Tokens of a user's question and answer, where neither an owner nor a recipe says how many.
CONTEXT = 32_768


def main(
    what: str, context: int = 0, users: int = 1, nodes: int = 4, kv: str = "", write: str = "", as_json: bool = False
) -> int:
    """0: there is room on so many nodes; 1: nowhere. Raises Refusal where it can't be said.

    `context`: tokens of each user, question and answer together; 0: the recipe's, else CONTEXT, and never more than the
    model's. `kv`: the KV cache's type. `write`: the file of a recipe that is written.
    """
    if write:
        _check_file(path_of(write))
    of = subject(what, owners_hub())
    if write:
        _check_writable(of, kv)
    model, asked = model_of(of, kv), FitRequest(_context(of, context), users)
    contexts = [each for each in CONTEXTS if each <= (of.shape.context or each)]
    found = rooms(model, nodes, [*contexts, asked.context])
    change = list(changes(model, asked, nodes, of.weights))
    # Where the KV cache can't be counted nobody knows that there is room.
    fits = any(each.holds(asked) for each in found)
    if as_json:
        print(json.dumps(document(of, model, asked, found, change, fits)))
    else:
        _show(of, model, asked, found, change)
    if write and fits:
        _write(of, model, asked, [each for each in found if each.holds(asked)], path_of(write))
    elif write:
        print(f"{write} is not written: nothing here has room for it", file=sys.stderr)
    return 0 if fits else 1


def owners_hub() -> Hub:
    """The owner's: as group_data here says it, else the Hub's client's own settings (HF_ENDPOINT, HF_TOKEN)."""
    knobs = read_knobs(
        {name: value for name, value in group_data().items() if name in ("hub_endpoint", "hub_token_file")}
    )
    is_default = knobs.hub_endpoint == type(knobs).model_fields["hub_endpoint"].default
    return Hub("" if is_default else knobs.hub_endpoint, knobs.hub_token_file)


def _context(of: Subject, asked: int) -> int:
    own = of.recipe and ENGINES[of.recipe.engine].memory(of.recipe).context
    most = of.shape.context
    if asked and most and asked > most:
        raise Refusal(Finding("--context", f"{asked:,} is more than the model's {most:,}", "ask for less"))
    wanted = asked or own or CONTEXT
    return min(wanted, most) if most and not own else wanted


def model_of(of: Subject, kv: str = "") -> Model:
    """What is to be served, as a recipe says it; without one with the most that an engine may take.

    Raises Refusal for a type of KV cache whose bytes nobody knows.
    """
    recipe = of.recipe
    said = ENGINES[recipe.engine].memory(recipe) if recipe else None
    named = kv or (said.cache_type if said else "")
    try:
        cache_type = of.shape.typed(named)
    except KeyError:
        problem, remedy = f"a KV cache of the type `{named}` is not known", f"--kv with one of: {', '.join(BYTES)}"
        raise Refusal(Finding("fit", problem, remedy)) from None
    if not recipe or not said or not recipe.needs.gpu:
        return Model(of.shape, of.weights_gib, cache_type)
    parts = {each: max(recipe.min_nodes, 2) if each == "cluster" else 1 for each in recipe.topologies}
    wants = [demand(recipe, topology, count) for topology, count in parts.items()]
    start = max(free_gib(recipe, each, max(SPARK_GIB), FLOOR_GIB) for each in wants)
    share = max(each.share for each in wants) or said.share or MOST_SHARE
    return Model(of.shape, of.weights_gib, cache_type, share, (said.cache_bytes or 0.0) / 2**30, start)


def document(
    of: Subject, model: Model, asked: FitRequest, found: Sequence[Room], change: Sequence[str], fits: bool
) -> dict[str, object]:
    """For programs. Bytes of the KV cache are one engine's, all of its nodes' together where they divide it."""
    known = not of.shape.unknown
    return {
        "what": of.title,
        "repo": of.repo,
        "revision": of.revision,
        "architecture": of.shape.architecture,
        "context": of.shape.context,
        "gated": of.gated,
        "weights_gib": round(of.weights_gib, 2),
        "disk_gib": round(of.disk_gib, 2),
        "parameters": round(of.weights.total) if of.weights else None,
        "kv": {
            "type": model.cache_type,
            "bytes_per_token": of.shape.token(model.cache_type) if known else None,
            "bytes_per_request": of.shape.fixed(model.cache_type) if known else None,
            "unknown": of.shape.unknown,
            "uncounted": list(of.shape.uncounted),
        },
        "share": model.share,
        "asked": asdict(asked),
        "fits": fits,
        "rooms": [{"name": str(each.place), **asdict(each)} for each in found],
        "changes": list(change),
        "notes": list(of.notes),
    }


def _show(of: Subject, model: Model, asked: FitRequest, found: Sequence[Room], change: Sequence[str]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False, emoji=False)
    console.print(*_head(of, model), "", sep="\n", soft_wrap=True)
    contexts = sorted({context for each in found for context in each.users})
    table = Table("users at once of", *(_tokens(each) for each in contexts), "longest", "weights", "KV cache", box=None)
    for each in found:
        counts = [f"{each.users[context]}" if context in each.users else "-" for context in contexts]
        left = f"{each.cache_gib:.1f}" if each.cache_gib > 0 else "-"
        table.add_row(
            str(each.place), *counts, _tokens(each.longest) if each.longest else "-", f"{each.weights_gib:.1f}", left
        )
    console.print(table)
    console.print("Weights and room for the KV cache: GiB of each node.", soft_wrap=True)
    problems: dict[str, list[str]] = {}
    for each in found:
        if each.problem:
            problems.setdefault(each.problem, []).append(str(each.place))
    for problem, where in problems.items():
        console.print(f"{', '.join(where)}: {problem}", soft_wrap=True)
    console.print("", *_verdict(of, asked, found, change), sep="\n", soft_wrap=True)


def _head(of: Subject, model: Model) -> Iterator[str]:
    shape = of.shape
    at = f" at {of.revision[:12]}" if of.revision else ""
    yield f"{of.title}{at}: {shape.architecture}, {shape.layers} layers, context {shape.context or 'not said'}"
    files = f"{of.files} file{'s' if of.files > 1 else ''}"
    token = "; the Hub wants a token for it" if of.gated else ""
    yield f"  weights   {of.weights_gib:.1f} GiB in {files}, {of.disk_gib * GB:.0f} GB to fetch{token}"
    yield f"  KV cache  {_cache(shape, model.cache_type)}"
    engine = f"{model.share:g} of {min(SPARK_GIB):g} GiB is an engine's on each node"
    yield f"  memory    {engine}, {BESIDE_GIB:g} of it beside weights and KV"
    yield from (f"  note      {each}" for each in of.notes)


def _cache(shape: Shape, cache_type: str) -> str:
    if shape.unknown:
        return f"not known: {shape.unknown}"
    by = " (the checkpoint's type)" if shape.cache_type and cache_type == shape.typed("") else ""
    fixed = shape.fixed(cache_type) / 2**20
    more = f", and {fixed:.0f} MiB a request (windows, states)" if fixed else ""
    left = f"; not counted: {', '.join(shape.uncounted)}" if shape.uncounted else ""
    return f"{shape.token(cache_type):,.0f} bytes a token in {cache_type.upper()}{by}{more}{left}"


def _tokens(count: int) -> str:
    return f"{count // 1024}K" if count % 1024 == 0 or count > 2**17 else f"{count:,}"


def _verdict(of: Subject, asked: FitRequest, found: Sequence[Room], change: Sequence[str]) -> Iterator[str]:
    wish = f"{asked.users} user{'s' if asked.users > 1 else ''} at {asked.context:,} tokens"
    if of.shape.unknown:
        where = _where(each for each in found if not each.problem)
        yield f"{wish}: not known, as its KV cache is not; the weights fit {where}"
    elif any(each.holds(asked) for each in found):
        yield f"{wish}: room in {_where(each for each in found if each.holds(asked))}"
    else:
        yield f"{wish}: no room. What would have to change:" if change else f"{wish}: no room, and nothing here helps"
    yield from (f"  {each}" for each in change)


def _where(found: Iterator[Room]) -> str:
    return ", ".join(str(each.place) for each in found) or "nowhere"


def _check_file(path: Path) -> None:
    """Refuse what can't become a recipe's file, before the Hub is asked."""
    if path.suffix != ".yaml" or not path.stem.replace("+", "").replace(".", "").replace("-", "").isalnum():
        raise Refusal(Finding("--write", f"{path.name} is no name of a recipe's file", "name it like my-model.yaml"))
    if path.exists():
        raise Refusal(Finding("--write", f"{path} is there already", "name another, or remove it"))
    if not path.absolute().parent.is_dir():
        raise Refusal(Finding("--write", f"{path.absolute().parent} is no folder", "make it, or name another"))


def _check_writable(of: Subject, kv: str) -> None:
    """Refuse what no recipe can be written of."""
    if of.gguf:
        raise Refusal(
            Finding(
                "--write",
                "no recipe is written for GGUF files",
                "docs/engines.md in the clone has one of llama.cpp to copy",
            )
        )
    if kv and kv not in written.VLLM_TYPES:
        remedy = f"name one of: {', '.join(written.VLLM_TYPES)}"
        raise Refusal(Finding("--write", f"a recipe of vLLM has no KV cache in {kv}", remedy))
    if of.recipe:
        raise Refusal(Finding("--write", f"{of.recipe.name} is a recipe already", "copy its file, and edit that"))


def _write(of: Subject, model: Model, asked: FitRequest, fitting: Sequence[Room], path: Path) -> None:
    facts = written.Facts(path.stem, of.repo, of.revision, model, of.disk_gib, of.gated, _newest())
    try:
        path.write_text(written.recipe(facts, asked, fitting))
    except OSError as error:
        raise Refusal(Finding("--write", f"{path} can't be written: {error.strerror}", "name another")) from None
    try:
        load_file(path)
    except Refusal:
        # What can't be read is never left as if it could.
        path.unlink()
        raise
    print(f"{path} is written; grep QUESTION {path} lists what it leaves open", file=sys.stderr)


def _newest() -> Recipe:
    """With the engine that most shipped recipes have, the one with its newest release in an image that is fetched."""
    usual = Counter(each.engine for each in shipped()).most_common(1)[0][0]
    own = [each for each in shipped() if each.engine == usual and "@sha256:" in each.image and not each.mods]
    return max(own, key=lambda each: parse(each.engine_version or "0"))
