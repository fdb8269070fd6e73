"""Prompts of a wanted number of tokens, the same for the same seed, none beginning as another does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

#: Plain words, most of them one token to a model's tokenizer.
_TEXT = """
time year people way day man thing woman life child world school state family student group country problem hand
part place case week company system program question work government number night point home water room mother area
money story fact month lot right study book eye job word business issue side kind head house service friend father
power hour game line end member law car city community name president team minute idea kid body information back
parent face others level office door health person art war history party result change morning reason research girl
guy moment air teacher force education foot boy age policy music market sense nation plan college interest death
experience effect use class control care field development role effort rate heart drug show leader light voice wife
"""
_WORDS = _TEXT.split()
#: What fills the last few tokens, from what is one token nearly everywhere on.
_FILLERS = (" a", ".", " I", "a", " 1")
#: How often the engine is asked how long the prompts are.
ROUNDS = 8

#: Texts -> their tokens, with the template of a single message.
Count = Callable[[Sequence[str]], Sequence[int]]


@dataclass
class _Draft:
    random: Random
    wanted: int
    words: list[str] = field(default_factory=list)
    fill: str = ""
    best: str = ""
    best_off: int | None = None

    def __post_init__(self) -> None:
        # Caches keep whole blocks: two prompts that differ here share none behind it.
        self.words = [f"{self.random.getrandbits(40):010x}"]
        self.lengthen(self.wanted)

    @property
    def text(self) -> str:
        return " ".join(self.words) + self.fill

    def lengthen(self, words: int) -> None:
        self.words += [self.random.choice(_WORDS) for _ in range(words)]

    def judge(self, counted: int, round_: int) -> None:
        off = self.wanted - counted
        if self.best_off is None or abs(off) < abs(self.best_off):
            self.best, self.best_off = self.text, off
        if not off:
            return
        a_word = max(counted / len(self.words), 0.5)
        filler = _FILLERS[round_ % len(_FILLERS)]
        if off >= 2 * a_word:
            self.lengthen(int(off / a_word))
        elif off > 0:
            self.fill += filler * off
        else:
            # What was put there to fill goes first.
            cut = math.ceil(-off / a_word) if not self.fill else 0
            self.fill = ""
            self.words = self.words[: max(len(self.words) - cut, 1)]


def make(seed: str, lengths: Sequence[int], count: Count) -> list[str]:
    """A text for each length, counted as one message; what the template alone needs is the least. Where the tokenizer
    allows no exact one, the closest.
    """
    drafts = [_Draft(Random(f"{seed}/{number}"), wanted) for number, wanted in enumerate(lengths)]
    for round_ in range(ROUNDS):
        open_ = [draft for draft in drafts if draft.best_off != 0]
        if not open_:
            break
        for draft, counted in zip(open_, count([draft.text for draft in open_]), strict=True):
            draft.judge(counted, round_)
    return [draft.best for draft in drafts]
