"""Tandem's recipes for who chooses one: four picks, a table, or one recipe with all that is known of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table

from bench.advise import models
from bench.advise.kv import context
from operations.plan.config.refusal import Finding, Refusal, alike
from operations.plan.cost import Cost, cost, lasting
from operations.plan.engines import ENGINES
from operations.plan.engines.base import count
from operations.plan.recipes.formats import FOLDER
from operations.plan.recipes.picks import PICKS
from operations.plan.recipes.recipe import Recipe
from operations.verbs.recipe_table import free, published, shipped

COLUMNS = ("recipe", "runs in", "GB on disk", "GiB free", "context", "at once", "Hub login", "one user", "most")
#: Wider than any table.
_WIDE = 1000
#: Those that a narrow terminal does without, the first ones first.
SPARED = ("at once", "Hub login", "runs in", "one user")
FOOT = {
    "GB on disk": "GB on disk: model and image, on each node. GiB free: that each node must have before a start.",
    "at once": "at once: requests that each engine lets in; no limit: none of the recipe's own, so its release's.",
    "Hub login": "Hub login: whether the Hub wants a token for the download.",
    "one user": "one user: tokens a second on one Spark that others have published; `on N`: of a cluster of N alone.",
    "most": "most: the most tokens a second that others have published, and for how many users, on one Spark or two.",
    "recipe": "More of one: tandem recipes NAME. What fits your load: tandem advise. Recipes of others: tandem recipes "
    "add eugr.",
}
TOGETHER = "For chat and a coding agent together: the pick for coding agents."


def picks() -> Table:
    """The four that an owner may begin with, a row each."""
    found = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(2):
        found.add_column(no_wrap=True)
    for pick in PICKS:
        found.add_row(f"  {pick.title}", pick.recipe, pick.why)
    return found


def shown(console: Console, recipes: Sequence[Recipe]) -> Iterator[RenderableType]:
    """A row for each, with as many columns as the terminal has room for, and below what they mean."""
    names, without_end = list(COLUMNS), console.options.update(max_width=_WIDE)
    for spared in SPARED:
        if console.measure(table(recipes, names), options=without_end).maximum > console.width:
            names.remove(spared)
    yield table(recipes, names)
    yield ""
    yield from (line for name, line in FOOT.items() if name in names)
    if len(names) < len(COLUMNS):
        yield f"A wider terminal shows more: {', '.join(each for each in COLUMNS if each not in names)}."


def table(recipes: Sequence[Recipe], names: Sequence[str] = COLUMNS) -> Table:
    """A row for each, with these columns."""
    found = Table(box=None, pad_edge=False)
    for name in names:
        is_text = name in COLUMNS[:2]
        found.add_column(name, justify="left" if is_text else "right", no_wrap=True)
    for recipe in recipes:
        cells = dict(zip(COLUMNS, _row(recipe), strict=True))
        found.add_row(*(cells[name] for name in names))
    return found


def _row(recipe: Recipe) -> Sequence[str]:
    memory = max(free(recipe), key=lambda each: int(each.rpartition(" ")[2])).rpartition(" ")[2]
    most = max(recipe.figures, key=lambda each: each.tokens_per_second, default=None)
    return (
        recipe.name,
        ", ".join(runs_in(recipe)),
        f"{_cost(recipe).disk_gb:.0f}",
        memory,
        _context(recipe),
        _at_once(recipe),
        token(recipe),
        _alone(recipe) or "-",
        f"{most.tokens_per_second:.0f} for {most.users}" if most and most.users > 1 else "-",
    )


def _alone(recipe: Recipe) -> str:
    """`57`: the most that one user has on one Spark; `39 on 2` where only a cluster was measured; empty: nowhere."""
    alone = [each for each in recipe.figures if each.users == 1]
    of_one = [each for each in alone if each.topology == "solo"]
    best = max((each.tokens_per_second for each in of_one or alone), default=None)
    on = "" if of_one else f" on {max(2, recipe.min_nodes)}"
    return f"{best:.0f}{on}" if best else ""


def runs_in(recipe: Recipe) -> list[str]:
    """Its topologies; `cluster of 4` where two nodes are too few."""
    return [f"{each} of {recipe.min_nodes}" if recipe.min_nodes > 2 else each for each in recipe.topologies]


def token(recipe: Recipe) -> str:
    """Whether the Hub wants a token for the model."""
    return "not known" if recipe.gated is None else "yes" if recipe.gated else "no"


def _cost(recipe: Recipe) -> Cost:
    return cost(recipe, recipe.topologies[0], max(2, recipe.min_nodes))


def _context(recipe: Recipe) -> str:
    tokens = count(recipe.flag(ENGINES[recipe.engine].CONTEXT)) or context(recipe, models.of(recipe))
    return f"{tokens:,}" if tokens else "not known"


def _at_once(recipe: Recipe) -> str:
    said = recipe.flag(ENGINES[recipe.engine].REQUESTS)
    return str(said) if said else "no limit"


def one(recipe: Recipe, lines: Sequence[str], chosen: str = "") -> Iterator[str]:
    """All that is known of a recipe; `lines`: what the lint says of it; `chosen`: how an owner chooses it, where that
    is not its name.
    """
    costs, requests = _cost(recipe), _at_once(recipe)
    for pick in PICKS:
        if pick.recipe == recipe.name:
            yield f"{recipe.name}: the pick for {pick.title} ({pick.why})"
            break
    else:
        yield recipe.name
    image = recipe.image.partition("@")[0]
    told = {
        "what for": recipe.description,
        **({"of before": f"today {recipe.newer} is taken in its place"} if recipe.newer else {}),
        "model": f"{recipe.model.repo}, clients call it {recipe.served_name}",
        "engine": f"{recipe.engine} {recipe.engine_version or '(version unknown)'}, {image}",
        "runs in": ", ".join(runs_in(recipe)),
        "download": f"{costs.model_gb:.0f} GB of model, at most {costs.image_gb:.0f} GB of image"
        if costs.model_gb
        else "not known",
        "disk": f"{costs.disk_gb:.0f} GB on each node",
        "memory": f"GiB free on each node before a start: {'; '.join(free(recipe))}",
        "context": f"{_context(recipe)} tokens of question and answer together",
        "at once": f"{requests} requests on each engine"
        if requests.isdigit()
        else "as many requests as its release lets in",
        "Hub login": {"no": "none", "yes": "the Hub wants one: the knob hub_token_file"}.get(
            token(recipe), "not known whether the Hub wants one"
        ),
        "published": "; ".join(published(recipe.figures)) or "nothing",
        "first start": f"up to {lasting(recipe.load_minutes)} behind the download",
        "source": recipe.source,
    }
    yield from (f"  {name:11}  {text}" for name, text in told.items())
    yield from (f"  {'known':11}  {text}" for text in recipe.known)
    yield from (f"  {line}" for line in lines)
    chosen = chosen or recipe.name
    if recipe.needs.gpu:
        yield f"Choose it: tandem init --model {shlex.quote(chosen)}"
        yield f'  or recipe = "{chosen}" in group_data/all.py'
    else:
        yield "It is the lab's own: no Spark is deployed with it"


def named(name: str) -> str:
    """The name of one of Tandem's own; raises Refusal with the nearest."""
    names = [recipe.name for recipe in shipped()]
    if name in names or (FOLDER / f"{name}.yaml").is_file():
        return name
    raise Refusal(Finding("recipes", f"no recipe is named `{name}`", alike(name, names, "`tandem recipes` lists them")))
