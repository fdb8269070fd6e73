"""What `tandem advise` is worth, shown on published tables: docs/advise.md's tables, and a test, are made of this.

`python -m bench.advise.proof` prints them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bench import published
from bench.advise import fit, models, physics
from bench.advise.asking import question
from bench.advise.choose import by_figure
from bench.advise.evidence import Estimated, Evidence
from bench.advise.load import Load
from bench.advise.measured import setup_of_cell
from bench.advise.options import Question
from bench.advise.setups import Setup
from bench.published import Figure
from operations.plan.engines import ENGINES
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.recipe import Recipe

#: The articles that say who wins: their letters in docs/sources.md.
JUDGES = ("A", "D")


@dataclass(frozen=True)
class Said:
    """An article's own winner: `cluster`, `simple-shuffle` or `tie`."""

    letter: str
    called: str
    recipe: str
    figure: Figure
    users: int
    winner: str


@dataclass(frozen=True)
class Held:
    """What is advised where an article names a winner."""

    said: Said
    advised: str

    @property
    def right(self) -> bool:
        """Whether both are the same."""
        return self.said.winner == self.advised


def winners() -> list[Said]:
    """Every winner that [A] marks in its tables, and [D] by its crossing points; each once."""
    found: dict[tuple[str, str, int], Said] = {}
    for article in (each for letter in JUDGES for each in published.articles() if each.letter == letter):
        for setup in article.setups:
            for figure, rows in setup.figures.items():
                for users, row in rows.items():
                    winner = row.winner or _by_crossing(setup, figure, users)
                    if winner and setup.recipe:
                        said = Said(article.letter, setup.called, setup.recipe, figure, users, winner)
                        found.setdefault((setup.recipe, figure, users), said)
    return list(found.values())


def _by_crossing(setup: published.Setup, figure: Figure, users: int) -> str:
    if not setup.crossing:
        return ""
    return "simple-shuffle" if users >= setup.crossing.get(figure, sys.maxsize) else "cluster"


def from_tables() -> list[Held]:
    """What is advised with the tables at hand."""
    return [Held(said, _advised(_question(said.recipe), said)) for said in winners()]


def from_estimate() -> list[Held]:
    """What is advised by the estimate alone, its constants fitted without the model that is asked about."""
    return [Held(said, _advised(_blind(said.recipe), said)) for said in winners()]


def _advised(asked: Question, said: Said) -> str:
    load = Load(said.users, 1024, 128)
    # The articles had no other routing.
    setups = [*(each for each in asked.setups() if each.topology != "replicas"), Setup("replicas", "simple-shuffle")]
    able = [each for each in (asked.outlook(setup, load) for setup in setups) if not each.why_not]
    verdict = by_figure(able, said.figure)
    if verdict is None:
        return "nothing"
    # Where two can't be told apart, that is what is said.
    return (
        "tie"
        if verdict.tie
        else verdict.ahead[0].how
        if verdict.ahead[0].topology == "replicas"
        else verdict.ahead[0].topology
    )


@functools.cache
def _open(name: str) -> Recipe:
    """A recipe that lets everybody in at once, as the articles' did: their decode grows up to 64 users."""
    recipe = load_recipe(name)
    return recipe.model_copy(
        update={"flags": tuple(each for each in recipe.flags if each.name != ENGINES[recipe.engine].REQUESTS)}
    )


@functools.cache
def _question(name: str) -> Question:
    return question(_open(name), 2, Load(1))


@functools.cache
def _blind(name: str) -> Question:
    recipe = _open(name)
    constants = fit.fit((each for each in fit.points() if each.cell.setup.model != recipe.model.repo), physics.FITTED)
    dense = next((each.setup.dense_bits for each in published.cells(recipe=name)), None)
    model = models.known(recipe.model.repo, recipe.model.weights_gib, dense)
    assert model
    return Question(recipe, model, 2, Evidence([], Estimated(model, models.kv_bytes(recipe), constants)))


def page() -> Iterator[str]:
    """The tables of docs/advise.md."""
    tables, blind = from_tables(), from_estimate()
    yield "| model | winners named | advised from the tables | by the estimate | it can't tell apart | it is wrong |"
    yield "|---|---|---|---|---|---|"
    for called in (*dict.fromkeys(each.said.called for each in tables), ""):
        mine, theirs = ([each for each in held if each.said.called == called or not called] for held in (tables, blind))
        right, guessed = sum(each.right for each in mine), sum(each.right for each in theirs)
        open_ = sum(each.advised == "tie" and not each.right for each in theirs)
        yield f"| {called or 'all'} | {len(mine)} | {right} | {guessed} | {open_} | {len(theirs) - guessed - open_} |"
    yield ""
    for said, advised in ((each.said, each.advised) for each in tables if not each.right):
        where = f"{said.called}, {said.figure}, {said.users} users"
        yield f"Not the same: {where}: [{said.letter}] {said.winner}, advised {advised}."
    yield ""
    yield "| estimated without the model | figures | median error | worst | where |"
    yield "|---|---|---|---|---|"
    misses = fit.left_out()
    for model in dict.fromkeys(each.cell.setup.model for each in misses):
        mine_ = [each for each in misses if each.cell.setup.model == model]
        yield _errors(mine_[0].cell.setup.called.split(",")[0], mine_)
    for figure in published.FIGURES:
        yield _errors(figure, [each for each in misses if each.cell.figure == figure])
    yield _errors("all", misses)
    yield ""
    yield "| estimated without such a number of nodes | figures | median error | worst | where |"
    yield "|---|---|---|---|---|"
    for ranks in (1, 2, 4):
        mine_ = [each for each in fit.nodes_left_out() if setup_of_cell(each.cell).ranks == ranks]
        yield _errors("one node an engine" if ranks == 1 else f"TP={ranks}", mine_)
    yield ""
    yield "| computed from solo's rows of a table alone | figures | median error | worst | where |"
    yield "|---|---|---|---|---|"
    for column in ("simple-shuffle", "cluster"):
        yield _errors(column, [each for each in fit.from_solo() if each.cell.column == column])


def _errors(name: str, misses: Iterable[fit.Miss]) -> str:
    misses = list(misses)
    typical, worst = fit.typical(misses)
    where = f"{worst.cell.setup.called}, {worst.cell.figure}, {worst.cell.column}, {worst.cell.users} users"
    return f"| {name} | {len(misses)} | {typical:.0%} | {worst.error:+.0%} | {where} |"


if __name__ == "__main__":
    print("\n".join(page()))
