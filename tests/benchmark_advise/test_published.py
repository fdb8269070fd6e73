"""The articles' tables as data: all there, and in agreement with what the articles say of them themselves."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from bench import published
from bench.published import Article, Cell, Setup
from operations.plan.recipes.formats import load_recipe

DOCS = Path(__file__).parents[2] / "docs"


def article(letter: str) -> Article:
    return next(each for each in published.articles() if each.letter == letter)


def cells(of: Article, called: str = "") -> dict[tuple[str, str, int], float | str]:
    return {
        (figure, column, users): said
        for setup in of.setups
        if called in ("", setup.called)
        for figure, rows in setup.figures.items()
        for users, row in rows.items()
        for column in published.COLUMNS
        if (said := row.said(column)) is not None
    }


def test_every_table_of_the_four_articles_is_there() -> None:
    # [A]: three tables of 7 rows and 4 columns, the kernels' table of 4 columns (its third row is the first of these).
    assert len(cells(article("A"), "Nemotron-3-Super")) == 84
    kernels = [setup for setup in article("A").setups if setup.called != "Nemotron-3-Super"]
    assert [sum(map(len, setup.figures.values())) for setup in kernels] == [4, 4]
    assert [table.name for table in article("A").tables] == [
        "topologies", "decode of shuffle over least-busy", "which topology for what",
    ]  # fmt: skip
    # [D]: three charts of 6 points a model, prefill and the first token at 4 numbers of users, without solo.
    by_model = Counter(setup.called for setup in article("D").setups for _ in cells(article("D"), setup.called))
    assert by_model == {"GPT-OSS-120B": 34, "Gemma4-26B": 34, "Nemotron-3-Super": 34}
    assert len(article("D").tables) == 7
    assert [len(cells(article("B"), setup.called)) for setup in article("B").setups] == [2, 2, 2, 2]
    assert len(article("B").tables) == 3
    assert len(cells(article("E"))) == 1 and len(article("E").tables) == 2


@pytest.mark.parametrize(
    ("letter", "called", "where", "said"),
    [
        ("A", "Nemotron-3-Super", ("decode", "cluster", 8), 82.77),
        ("A", "Nemotron-3-Super", ("ttft", "least-busy", 64), 22789),
        ("A", "Nemotron-3-Super", ("prefill", "solo", 64), "OOM"),
        ("D", "GPT-OSS-120B", ("prefill", "cluster", 64), 3873),
        ("D", "GPT-OSS-120B", ("ttft", "simple-shuffle", 8), 1005),
        ("D", "Gemma4-26B", ("ttft", "cluster", 1), 181),
        ("D", "Nemotron-3-Super", ("decode", "solo", 64), "doubted 83.50"),
        ("B", "Nemotron 3 Nano W4A4", ("decode", "solo", 16), 786),
        ("E", "Nemotron-3-Super, Marlin", ("decode", "solo", 1), "13-16"),
    ],
)
def test_a_cell(letter: str, called: str, where: tuple[str, str, int], said: float | str) -> None:
    assert cells(article(letter), called)[where] == said


def test_a_cell_of_words_is_a_number_only_where_it_is_one() -> None:
    by_cell = {(cell.article.letter, cell.figure, cell.column, cell.users): cell for cell in published.cells()}
    assert by_cell["E", "decode", "solo", 1].value == 14.5
    assert by_cell["A", "decode", "solo", 64].value is None and by_cell["A", "decode", "solo", 64].said == "OOM"


@pytest.mark.parametrize(
    "setup", [setup for each in published.articles() for setup in each.setups], ids=lambda s: s.called
)
def test_winners_are_what_the_rows_say(setup: Setup) -> None:
    """A mark is the best of its row, and its percentage is the distance to another column: a slip would show."""
    for figure, rows in setup.figures.items():
        less = figure in published.LESS_IS_BETTER
        for users, row in rows.items():
            values = {column: value for column in published.COLUMNS if (value := row.value(column)) is not None}
            where = (setup.called, figure, users)
            ordered = sorted(values, key=lambda column: values[column], reverse=not less)
            if row.winner == "tie":
                assert abs(values[ordered[0]] / values[ordered[1]] - 1) < 0.01, where
            elif row.winner:
                assert row.winner == ordered[0], where
            if row.by is not None:
                best = values[ordered[0]]
                others = [100 * (best / values[column] - 1) for column in ordered[1:]]
                assert any(abs(row.by - other) <= 1 for other in others), (where, row.by, others)


def test_articles_that_print_the_same_figure_agree() -> None:
    """[D] repeats what the articles of single models have; two transcriptions of a cell are equal."""
    compared = 0
    for one, other in product(published.articles(), repeat=2):
        if one.letter >= other.letter:
            continue
        for mine, theirs in product(one.setups, other.setups):
            if mine.recipe and mine.recipe == theirs.recipe:
                first, second = cells(one, mine.called), cells(other, theirs.called)
                for where in first.keys() & second.keys():
                    compared += 1
                    doubted = str(second[where]).startswith("doubted")
                    assert doubted or first[where] == second[where], (one.letter, other.letter, where)
    assert compared > 60


def test_crossings_are_where_the_rows_cross() -> None:
    """Within the one percent that the articles themselves call a tie."""
    for setup in article("D").setups:
        for figure, rows in setup.figures.items():
            for users, row in rows.items():
                shuffle, cluster = row.value("simple-shuffle"), row.value("cluster")
                assert shuffle and cluster
                gain = cluster / shuffle - 1 if figure in published.LESS_IS_BETTER else shuffle / cluster - 1
                is_past = users >= setup.crossing.get(figure, 1000)
                assert gain > -0.01 if is_past else gain < 0.01, (setup.called, figure, users)


def test_every_source_is_known_here() -> None:
    known = (DOCS / "sources.md").read_text()
    for each in published.articles():
        assert f"| [{each.letter}] |" in known
    for cell in published.cells():
        if cell.setup.recipe:
            assert load_recipe(cell.setup.recipe).model.repo == cell.setup.model


def test_a_whole_answer_is_of_a_recipe_that_cites_the_article_and_stands_in_its_table() -> None:
    for each in published.articles():
        rows = [row for table in each.tables for row in table.rows]
        for whole in each.whole:
            [alone] = [it for it in load_recipe(whole.recipe).figures if (it.users, it.source) == (1, each.letter)]
            assert any(alone.tokens_per_second in row and whole.seconds in row for row in rows), whole


def test_a_figure_that_several_print_is_there_once() -> None:
    keys = Counter((cell.setup.recipe, cell.figure, cell.column, cell.users) for cell in _with_recipe())
    assert max(keys.values()) == 1
    assert {cell.article.letter for cell in _with_recipe() if cell.setup.called == "Nemotron-3-Super"} == {"A"}


def _with_recipe() -> list[Cell]:
    return [cell for cell in published.cells() if cell.setup.recipe]
