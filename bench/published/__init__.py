"""What others have published, as data with its source: one file an article, all of its tables.

    setups   what was measured over numbers of users: figures that `tandem advise` and `tandem report` read
    whole    whole answers at one length, which `tandem advise` names beside what it computes
    tables   every other table of the article

Throughputs are tokens a second of all users together, `ttft` is milliseconds. A value may be `OOM`, a range (`13-16`),
or `doubted V`: it is printed, and contradicted by the article itself.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

FOLDER = Path(__file__).parent
Figure = Literal["decode", "prefill", "ttft"]
Column = Literal["solo", "cluster", "simple-shuffle", "least-busy"]
COLUMNS: tuple[Column, ...] = ("solo", "cluster", "simple-shuffle", "least-busy")
FIGURES: tuple[Figure, ...] = ("decode", "prefill", "ttft")
#: Of which more is worse.
LESS_IS_BETTER = ("ttft",)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Row(_Strict):
    """A number of users. `winner` and `by` (percent over the next) are the article's own words."""

    solo: float | str | None = None
    cluster: float | str | None = None
    simple_shuffle: float | str | None = Field(None, alias="simple-shuffle")
    least_busy: float | str | None = Field(None, alias="least-busy")
    winner: Literal["solo", "cluster", "simple-shuffle", "tie"] | None = None
    by: float | None = None

    def said(self, column: Column) -> float | str | None:
        """A cell as it is printed."""
        value: float | str | None = getattr(self, column.replace("-", "_"))
        return value

    def value(self, column: Column) -> float | None:
        """A cell as a number: the middle of a range; None: there is none, or one that is doubted."""
        said = self.said(column)
        if isinstance(said, str) and said[0].isdigit():
            low, high = said.split("-")
            return (float(low) + float(high)) / 2
        return said if isinstance(said, float) else None


class Load(_Strict):
    """How it was measured; None: the article does not say."""

    tool: str
    prompt: int | None = None
    answer: int | None = None
    runs: int | None = None
    #: Whether all users asked the same: a mixture of experts then reads as for one, and a prefix cache has the prompt.
    one_prompt: bool = False


class Setup(_Strict):
    """One model as it was served. `recipe`: ours that corresponds; empty: none. `load`: where not the article's."""

    model: str
    called: str
    recipe: str = ""
    release: str
    #: What joined the ranks of the cluster; empty: not said.
    executor: Literal["mp", "ray", ""] = ""
    #: Nodes of the cluster, and of replicas.
    nodes: int = 2
    load: Load | None = None
    #: Bits of a weight outside the experts, where its build had other ones than the checkpoint.
    dense_bits: float | None = None
    #: Of all weights, where no recipe of ours says it.
    weights_gib: float | None = None
    #: From how many users on the article has shuffle ahead of the cluster.
    crossing: dict[Figure, int] = {}
    figures: dict[Figure, dict[int, Row]]


class Whole(_Strict):
    """Seconds until one user of one Spark had a whole answer. `recipe`: ours that was measured so."""

    recipe: str
    prompt: int
    answer: int
    seconds: float


class Table(_Strict):
    """Any other table."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | bool, ...], ...]


class Article(_Strict):
    """One source; `letter` is that of docs/sources.md."""

    title: str
    letter: str
    publisher: str = ""
    date: str = ""
    url: str = ""
    load: Load
    notes: tuple[str, ...] = ()
    setups: tuple[Setup, ...]
    whole: tuple[Whole, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Cell:
    """One published figure with where it stands."""

    article: Article
    setup: Setup
    figure: Figure
    column: Column
    users: int
    value: float | None
    #: As it is printed: `OOM`, `13-16`.
    said: str

    @property
    def load(self) -> Load:
        """How it was measured."""
        return self.setup.load or self.article.load

    @property
    def is_alike(self) -> bool:
        """Whether several users asked the same."""
        return self.load.one_prompt and self.users > 1

    @property
    def source(self) -> str:
        """As it is cited: `[A]`."""
        return f"[{self.article.letter}]"


@functools.cache
def articles() -> tuple[Article, ...]:
    """All of them, by file name."""
    return tuple(_read(file) for file in sorted(FOLDER.glob("*.yaml")))


def cells(recipe: str = "", model: str = "") -> list[Cell]:
    """Figures over users that were measured with the recipe that corresponds, or of the model; nothing named: all.

    One that several articles print is there once, from the first.
    """
    found: dict[tuple[str, str, str, str, int], Cell] = {}
    for article in articles():
        for setup in article.setups:
            if (recipe and setup.recipe != recipe) or (model and setup.model != model):
                continue
            for figure, rows in setup.figures.items():
                for users, row in rows.items():
                    for column in COLUMNS:
                        said = row.said(column)
                        key = (setup.recipe or setup.called, setup.model, figure, column, users)
                        if said is None or key in found:
                            continue
                        found[key] = Cell(article, setup, figure, column, users, row.value(column), _printed(said))
    return list(found.values())


def _printed(said: float | str) -> str:
    return said if isinstance(said, str) else f"{said:g}"


def _read(file: Path) -> Article:
    data = yaml.safe_load(file.read_text())
    data["date"] = str(data.get("date", ""))
    return Article.model_validate(data)
