"""What a question and a check are, and what both know of the model that is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from operations.plan.answers.reading import Said, Undecided, Wrong, chat, has_failed, message, taken_out, words
from operations.plan.engines import ENGINES
from operations.plan.recipes.recipe import Recipe
from operations.wire import Json
from operations.wire.answers import Answered

Kind = Literal["form", "sense"]
#: Tokens for thoughts, beside those of the answer itself.
_THOUGHTS = 2048


@dataclass(frozen=True)
class Subject:
    """A model as its recipe has it. `context`: tokens of a question and its answer; `lacks`: what it is not asked for,
    each with why; `is_noise`: its words mean nothing.
    """

    model: str
    context: int
    lacks: Mapping[str, str]
    is_noise: bool = False

    def room(self, tokens: int) -> int:
        """Tokens that an answer may have: what it needs, and room to think where the model does."""
        thinks = ("reasoning" not in self.lacks or "apart" in self.lacks) and not self.is_noise
        return min(tokens + (_THOUGHTS if thinks else 0), max(self.context // 4, 16))


def subject(recipe: Recipe) -> Subject:
    """What the questions about answers have to know of a recipe's model: its served name, the tokens of its context,
    whether its words are noise, and why it can't be asked which questions (`lacks`).
    """
    runs = ENGINES[recipe.engine]
    lacks = dict(runs.lacks(recipe))
    if recipe.answers != "chat":
        lacks["chat"] = f"it is there for {recipe.answers}, and answers no chat"
    if not recipe.proof.reasoning:
        lacks["thinks"] = "the recipe does not say that each answer has thoughts (`proof.reasoning`)"
    if recipe.proof.text:
        lacks["recited"] = "its own words are judged; only a model whose words are noise recites what it is given"
    else:
        lacks["sense"] = "the recipe says that its words are noise (`proof.text: false`)"
    return Subject(
        recipe.served_name,
        runs.context_tokens(recipe),
        lacks,
        not recipe.proof.text,
    )


@dataclass
class Seen:
    """What has come back so far. `again`: names of what is asked for the second time, as the engine had failed.

    Reading an answer raises Wrong, or Undecided where it was not asked.
    """

    subject: Subject
    answers: dict[str, Answered] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)

    def answered(self, name: str) -> Answered:
        """As it came. Raises Wrong for a request at which the engine fails twice."""
        found = self.answers.get(name)
        if found is None or "status" not in found:
            raise Undecided(found.get("text", "") if found else "it was not asked")
        if name in self.again and has_failed(found):
            raise Wrong(f"asked twice: {words(found)}")
        return found

    def chat(self, name: str) -> Said:
        """An answer's shape in OpenAI's protocol."""
        return self._read(chat(self.answered(name)))

    def message(self, name: str) -> Said:
        """An answer's shape in Anthropic's protocol."""
        return self._read(message(self.answered(name)))

    def _read(self, said: Said) -> Said:
        return taken_out(said) if "apart" in self.subject.lacks else said


@dataclass(frozen=True)
class Question:
    """A request: its path below /v1 and what makes its body, of what has come back to those that it comes `after`.

    `needs`: what the recipe must not lack. `body` raises Undecided where it can't be asked.
    """

    name: str
    path: str
    body: Callable[[Seen], Json]
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Check:
    """One row of the table. `says`: what holds, in a sentence; `judge` raises Wrong, or Undecided."""

    name: str
    kind: Kind
    says: str
    judge: Callable[[Seen], None]
    needs: tuple[str, ...] = ()

    @property
    def wants(self) -> tuple[str, ...]:
        """What the recipe must not lack."""
        return ("chat", *self.needs, *(("sense",) if self.kind == "sense" else ()))
