"""Answers that are known: asked alone first, and compared word for word with the same ones under load."""

from __future__ import annotations

from typing import Any

from bench.client.shapes import Told, Turn
from bench.process import Client

#: Their answers are short, and hardly ever a matter of taste: on a GPU sums come out otherwise in another batch.
QUESTIONS = [
    f"Write the numbers from {first} to {first + 9}, with commas, and nothing else." for first in (3, 14, 25, 36)
]
TOKENS = 16


def turn(question: str, expect: str | None = None) -> Turn:
    """A conversation's only one; its answer may end where it ends."""
    return {"messages": [{"role": "user", "content": question}], "max_tokens": TOKENS, "exact": False, "expect": expect}


def learn(client: Client, **place: Any) -> dict[str, str]:
    """Question -> answer of those that are answered alike twice when nothing else is asked."""
    told: list[Told] = []
    asked = [[turn(question)] for question in QUESTIONS * 2]
    client.order("load", told.append, users=1, conversations=asked, **place)
    answers: list[set[str]] = [set() for _ in QUESTIONS]
    for request in told:
        text = "" if request["error"] else request["text"]
        answers[request["conversation"] % len(QUESTIONS)].add(text)
    return {
        question: next(iter(texts))
        for question, texts in zip(QUESTIONS, answers, strict=True)
        if len(texts) == 1 and "" not in texts
    }


def conversations(known: dict[str, str], users: int) -> list[list[Turn]]:
    """Two questions for each user."""
    pairs = list(known.items())
    return [[turn(*pairs[number % len(pairs)])] for number in range(2 * users)]
